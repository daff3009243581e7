//! Means, percentiles and size classes of response times and slowdowns.
