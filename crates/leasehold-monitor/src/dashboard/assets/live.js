// Hears of changes, and says how far what is shown can be relied on.

const POLL = 5000;

/**
 * Calls `heard` when something changed, and `refresh` each five seconds besides: what is left of a lease grows without a change
 * that would be told, and events may not come through at all. Says nothing and asks nothing while nobody looks.
 */
export class Live {
  #events = null;
  #timer = null;
  #streams = null;
  #fails = false;
  #refresh;
  #heard;
  #changed;

  constructor({ refresh, heard, changed }) {
    this.#refresh = refresh;
    this.#heard = heard;
    this.#changed = changed;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#rest() : this.start()));
  }

  /** `joining` (nothing is known yet), `live`, `polling` (no events: asks) or `away` (no answers either). */
  get state() {
    if (this.#fails) return 'away';
    if (this.#streams === null) return 'joining';
    return this.#streams ? 'live' : 'polling';
  }

  start() {
    this.#rest();
    this.#listen();
    this.#timer = setInterval(() => this.#poll(), POLL);
    this.#refresh();
  }

  /** How the last question went. */
  went(well) {
    this.#fails = !well;
    this.#changed();
  }

  #rest() {
    clearInterval(this.#timer);
    this.#events?.close();
    this.#streams = null;
  }

  #poll() {
    // A browser gives up for good where the answer was an error; we don't.
    if (this.#events.readyState === EventSource.CLOSED) this.#listen();
    this.#refresh();
  }

  #listen() {
    const events = new EventSource('api/v1/events');
    const now = (streams) => {
      if (events !== this.#events) return;
      this.#streams = streams;
      this.#changed();
    };
    events.addEventListener('open', () => {
      now(true);
      this.#refresh();
    });
    events.addEventListener('error', () => now(false));
    events.addEventListener('change', () => this.#heard());
    this.#events = events;
  }
}
