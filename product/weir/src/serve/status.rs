//! The answer to `weir status`: an object of JSON.

use serde_json::{Value, json};
use server::{ClassStatus, Counts, ObjectiveStatus, STATUS_WAIT_MAX, Server};

pub fn answer(server: &Server) -> String {
    let told = match server.status() {
        Some(status) => json!({ "classes": status.classes.iter().map(class).collect::<Vec<_>>() }),
        None => json!({ "error": no_answer() }),
    };
    told.to_string()
}

fn no_answer() -> String {
    format!(
        "the event loop has not answered within {STATUS_WAIT_MAX:?}, expected at once: see the error log, and run `weir status` again"
    )
}

fn class(class: &ClassStatus) -> Value {
    json!({
        "name": class.name,
        "in_file": class.is_in_force,
        "responses": class.responses,
        "bytes": class.bytes,
        "running": class.under_way.running,
        "asleep": class.under_way.asleep,
        "asleep_s_max": class.under_way.asleep_for_max.map(|age| age.as_secs_f64()),
        "objective": class.objective.as_ref().map(objective),
    })
}

fn objective(status: &ObjectiveStatus) -> Value {
    let counts = |counts: &Counts| {
        json!({
            "responses": counts.responses,
            "missed": counts.missed,
            "met_percent": counts.missed_share().map(|share| 100.0 * (1.0 - share)),
            "burn": counts.burn(&status.objective),
        })
    };
    json!({
        "text": status.objective.to_string(),
        "last_minute": counts(&status.lately),
        "since_start": counts(&status.total),
    })
}
