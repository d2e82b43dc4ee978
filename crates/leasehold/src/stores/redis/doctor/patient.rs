//! A server that is examined.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind as Kind, ProtocolVersion, RedisError, RedisResult, ServerErrorKind, Value,
};

use super::Doctor;
use super::duty::Duty;
use super::info::Info;
use crate::stores::redis::address::Address;
use crate::stores::redis::answer;
use crate::stores::redis::dial::Dial;
use crate::stores::redis::fault::Fault;
use crate::stores::redis::options::Options;
use crate::stores::redis::script::Scripts;

/// How long the connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(2);

/// The settings that bear on locks.
const SETTINGS: [&str; 8] = [
    "appendfsync",
    "save",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "repl-backlog-ttl",
    "cluster-require-full-coverage",
    "maxmemory-policy",
];

/// A server, a connection to it, and what it says of itself.
pub(super) struct Patient<'a> {
    pub options: &'a Options,
    pub scripts: &'a Scripts,
    pub dial: &'a Dial,
    pub duty: Duty,
    pub address: &'a Address,
    pub connection: MultiplexedConnection,
    /// None for a user who may not ask; the same of the settings.
    pub info: Option<Info>,
    pub settings: Option<HashMap<String, String>>,
    /// What `INFO` said, as it came.
    pub said: String,
}

impl<'a> Patient<'a> {
    /// Connects, and asks what bears on everything else.
    pub async fn meet(doctor: &Doctor<'a>, address: &'a Address) -> Result<Self, Fault> {
        // Sentinels and old servers know no other.
        let (protocol, config) = (ProtocolVersion::RESP2, AsyncConnectionConfig::new());
        let connection = doctor.dial.connect(address, protocol, config, PATIENCE).await?;
        let Doctor { options, scripts, dial, duty } = *doctor;
        let said = String::new();
        let mut patient = Self { options, scripts, dial, duty, address, connection, info: None, settings: None, said };
        let mut questions = vec![redis::cmd("INFO")];
        questions.extend(SETTINGS.map(|setting| command("CONFIG", &["GET", setting])));
        let mut answers = patient.ask(&questions).await?.into_iter();
        match answers.next().unwrap_or(Ok(Value::Nil)) {
            Ok(said) => {
                patient.said = answer::text(&said).unwrap_or_default();
                patient.info = Some(Info::read(&patient.said));
            }
            Err(error) if is_denied(&error) => {}
            Err(error) => return Err(Fault::Sent(error)),
        }
        let settings =
            answers.filter_map(|answer| redis::from_redis_value::<HashMap<String, String>>(answer.ok()?).ok());
        let settings: HashMap<_, _> = settings.flatten().collect();
        patient.settings = Some(settings).filter(|settings| !settings.is_empty());
        Ok(patient)
    }

    /// Asks several things at once; an error only if it can't be asked.
    pub async fn ask(&self, commands: &[Cmd]) -> Result<Vec<RedisResult<Value>>, Fault> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let answers = self.connection.clone().send_packed_commands(&pipeline, 0, commands.len()).await;
        Ok(answers.map_err(Fault::Sent)?.into_iter().map(Value::extract_error).collect())
    }

    /// Asks one thing, where nothing is to be said of who may not.
    pub async fn ask_one(&self, command: &Cmd) -> Option<Value> {
        self.ask(std::slice::from_ref(command)).await.ok()?.swap_remove(0).ok()
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.as_ref()?.get(name).map(String::as_str)
    }

    pub fn number(&self, setting: &str) -> Option<u64> {
        self.setting(setting)?.parse().ok()
    }
}

pub(super) fn command(name: &str, arguments: &[&str]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(arguments);
    command
}

/// Whether it is this user who may not, or nobody.
pub(super) fn is_denied(error: &RedisError) -> bool {
    error.kind() == Kind::Server(ServerErrorKind::NoPerm) || error.to_string().contains("unknown command")
}
