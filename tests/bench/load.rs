//! Many requests, over a number of connections.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};

/// How many connections a plain client uses.
pub const CONNECTIONS: usize = 16;

/// Does something for each item, for [`CONNECTIONS`] of them at once.
pub async fn each<T, F>(items: impl IntoIterator<Item = T>, work: impl Fn(T) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    stream::iter(items)
        .map(|item| Ok(work(item)))
        .try_buffer_unordered(CONNECTIONS)
        .try_collect()
        .await
}
