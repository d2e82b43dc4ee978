//! What a server is asked.

use super::{Connection, Redis};

/// Tells the end of what has been heard from what comes later.
const MARK: &str = "leasehold-testkit: so far";

/// Listens to what one [`Redis`] runs, from [`Redis::monitor`] on.
#[derive(Debug)]
pub struct Monitor<'a> {
    server: &'a Redis,
    connection: Connection,
    marker: Connection,
}

impl<'a> Monitor<'a> {
    pub(super) fn of(server: &'a Redis) -> Self {
        let [mut connection, marker] = [(); 2].map(|()| server.connect().expect("the server answers"));
        connection.ask(&["MONITOR"]).expect("the server answers");
        Self { server, connection, marker }
    }

    /// The commands since it began, or since the last call, as the server shows them: `[0 127.0.0.1:4711] "GET" "name"`,
    /// and `[0 lua] …` for what scripts do. All that was run before this call is there; what the testkit asked for too,
    /// from `unix:…`.
    ///
    /// # Panics
    /// If the server doesn't answer.
    pub fn commands(&mut self) -> Vec<String> {
        self.marker.ask(&["ECHO", MARK]).expect("the server answers");
        self.server.count_own();
        let mut commands = Vec::new();
        loop {
            let line = self.connection.receive().expect("the server answers").text();
            if line.contains(MARK) {
                return commands;
            }
            // Before the bracket there is the time.
            let command = line.split_once(' ').map_or(&*line, |(_, command)| command);
            commands.push(command.to_owned());
        }
    }
}
