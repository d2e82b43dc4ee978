/* A clock of a server's own, preloaded: what the machine's shows, and so many milliseconds more as stand in the file that
 * LEASEHOLD_CLOCK names. Only what tells the time of day is covered: what a server measures spans with runs on. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long ahead(void) {
  static const char *path;
  char text[32] = {0};
  int file;
  if (!path) path = getenv("LEASEHOLD_CLOCK"); /* Once: a server may overwrite its environment. */
  file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
  close(file);
  return strtoll(text, NULL, 10);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec real;
  long long micros;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &real)) return -1;
  micros = real.tv_sec * 1000000LL + real.tv_nsec / 1000 + ahead() * 1000;
  now->tv_sec = micros / 1000000;
  now->tv_usec = micros % 1000000;
  return 0;
}

time_t time(time_t *at) {
  struct timeval now;
  gettimeofday(&now, NULL);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
