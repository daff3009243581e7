//! Open-loop HTTP load with one timer per request and a check of its own lateness.
