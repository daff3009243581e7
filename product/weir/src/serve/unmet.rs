//! The reasons why a server cannot start: settings that this machine cannot provide, each with its key in a file, and
//! things that cannot be opened.

use cli::Failure;
use config::{Configuration, Remark};
use server::service_manager::Account;
use server::{Fault, ShapingError, StartError, Unstarted};

use super::reload_config::Source;
use crate::faults::{place_of, shaping_in};

/// A setting that this machine cannot provide.
pub enum Unmet {
    /// The shaping, with the flag in the text.
    Shaping(ShapingError, Failure),
    /// The value of this key is the cause.
    Key(&'static str, Failure),
    /// No setting is the cause.
    Machine(Failure),
}

impl From<Failure> for Unmet {
    fn from(failure: Failure) -> Unmet {
        Unmet::Machine(failure)
    }
}

impl From<Unmet> for Failure {
    fn from(unmet: Unmet) -> Failure {
        let (Unmet::Shaping(_, failure) | Unmet::Key(_, failure) | Unmet::Machine(failure)) = unmet;
        failure
    }
}

impl Unmet {
    /// Converts to a failure with its place in the file.
    pub fn in_file(self, configuration: &Configuration) -> Failure {
        let remark = match self {
            Unmet::Shaping(error, _) => shaping_in(configuration, &error),
            Unmet::Key(key, failure) => match place_of(&configuration.settings.held, key) {
                Some(at) => {
                    let text = failure.into_text();
                    let said = if text.contains(key) { text } else { format!("{key}: {text}") };
                    Remark { at, said: units::plain(&said).into_owned() }
                }
                None => return failure,
            },
            Unmet::Machine(failure) => return failure,
        };
        Failure::Failed(remark.line(&configuration.files))
    }
}

/// Converts a failed start to a failure with a line for each fault. It names the account if files were opened as
/// another user.
pub fn unstarted(Unstarted(faults): Unstarted, account: Option<Account>, source: &dyn Source) -> Failure {
    let is_of_account = |fault: &Fault| !matches!(fault.error, StartError::Listen(..) | StartError::Privileges(_));
    let account = account.filter(|_| faults.iter().any(is_of_account));
    let lines = source.placed(&faults).join("\n");
    Failure::Failed(account.map_or(lines.clone(), |account| format!("as user {account}: {lines}")))
}
