//! Selects the shaping that the flags request, if this machine supports it.

use std::net::SocketAddr;

use clap::ValueEnum;
use cli::Failure;
use config::UplinkRate;
use server::service_manager::Account;
use server::{ClassesConfig, Keeper, ShapingChoice, ShapingError, ShapingKind, ShapingOptions};

use super::unmet::Unmet;
use super::{Flags, Shaping, state_folder};

/// Returns the keeper of the uplink's found rate, and the reason if the rate cannot be kept.
pub fn keeper(flags: &Flags) -> (Option<Keeper>, Option<String>) {
    let is_found = flags.uplink != UplinkRate::Off && !matches!(flags.shaping, Shaping::Off);
    // An unknown account is reported later, when privileges are dropped.
    let account = flags.user.as_deref().and_then(|user| Account::find(user, flags.group.as_deref()).ok());
    match is_found.then(|| state_folder::keeper(flags.acme.state.as_deref(), account.as_ref())) {
        None => (None, None),
        Some(Ok(keeper)) => (keeper, None),
        Some(Err(why)) => (None, Some(why)),
    }
}

/// Selects the shaping that the flags request on this machine.
pub fn found(
    flags: &Flags,
    classes: Option<&ClassesConfig>,
    listen: &[SocketAddr],
    keeper: Option<&Keeper>,
) -> Result<ShapingChoice, Unmet> {
    find(flags, classes, listen, keeper).map_err(|error| {
        let name = flags.shaping.to_possible_value().map_or(String::new(), |value| value.get_name().to_string());
        let said = format!("--shaping {name}: {error}");
        let failure = if error.is_usage() { Failure::Usage(said) } else { Failure::Failed(said) };
        Unmet::Shaping(error, failure)
    })
}

/// Does the same as [`found`], but returns the original error.
pub fn find(
    flags: &Flags,
    classes: Option<&ClassesConfig>,
    listen: &[SocketAddr],
    keeper: Option<&Keeper>,
) -> Result<ShapingChoice, ShapingError> {
    let asked = ShapingOptions {
        kind: match flags.shaping {
            Shaping::Auto => ShapingKind::Auto,
            Shaping::Paced => ShapingKind::Paced,
            Shaping::Bands => ShapingKind::Bands,
            Shaping::BandsAtOnce => ShapingKind::BandsAtOnce,
            Shaping::Off => ShapingKind::Off,
        },
        policy: flags.policy.clone(),
        classes: classes.map(|classes| classes.table.clone()),
        client_share: flags.client_share,
        guard_permille: flags.starvation_share.permille().into(),
        cross_permille: flags.other_traffic_share.permille().into(),
        uplink: flags.uplink,
        kept: keeper.map_or(vec![], |keeper| keeper.lines().to_vec()),
    };
    ShapingChoice::find_for_all(&asked, listen)
}
