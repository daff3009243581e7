//! Means, percentiles and size classes of response times and slowdowns.
//!
//! Percentiles are *nearest rank*: always an observed value.
//!
//! Without observations there is no mean: such functions return `None`, never NaN.
//!
//! ```
//! assert_eq!(stats::mean(&[1.0, 2.0, 6.0]), Some(3.0));
//! assert_eq!(stats::nearest_rank(&[10, 20, 30, 40], 500), Some(20));
//! assert_eq!(stats::mean(&[]), None);
//! ```

mod growth;
mod moments;
mod rank;
mod saturation;
mod size;
mod streaming;

pub use growth::GrowthBins;
pub use moments::{mean, mean_nanos};
pub use rank::nearest_rank;
pub use saturation::{Saturation, Sent, Work, saturation};
pub use size::{SIZE_DECADES, size_decade, weighted_mean};
pub use streaming::{Moments, SpanMoments};
