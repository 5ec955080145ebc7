//! Frames of websockets: those on their way from the server to the client, which a test holds, changes, drops, doubles and slips in, and the
//! first of the client.

use std::{
    fmt, io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{broadcast, mpsc, watch},
};

/// The first byte of a text that is one frame.
const WHOLE_TEXT: u8 = 0x81;

/// The first byte of a frame that ends the websocket.
const CLOSE: u8 = 0x88;

/// How many frames a websocket may lag behind.
const BACKLOG: usize = 256;

/// Gives what the client gets in place of a text: nothing, the same, others, more of them.
pub type EditFrame = Arc<dyn Fn(String) -> Vec<String> + Send + Sync>;

/// A frame that the server never sent.
#[derive(Clone, Debug)]
pub enum Frame {
    /// A text.
    Text(String),
    /// The end of the websocket, for this reason (1000: as it should be).
    Close(u16),
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => frame(WHOLE_TEXT, text.as_bytes()),
            Self::Close(code) => frame(CLOSE, &code.to_be_bytes()),
        }
    }
}

/// What is done to the frames of a proxy's websockets.
pub(super) struct Frames {
    edit: Mutex<Option<EditFrame>>,
    held: watch::Sender<bool>,
    slipped: broadcast::Sender<Frame>,
    /// The first frames of all clients.
    openings: Mutex<Vec<String>>,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            edit: Mutex::default(),
            held: watch::Sender::new(false),
            slipped: broadcast::Sender::new(BACKLOG),
            openings: Mutex::default(),
        }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Frames").finish_non_exhaustive()
    }
}

impl Frames {
    pub fn edit(&self, edit: Option<EditFrame>) {
        *self.edit.lock().unwrap_or_else(PoisonError::into_inner) = edit;
    }

    pub fn hold(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    pub fn slip(&self, frame: Frame) {
        // Fails only when no websocket is open.
        let _ = self.slipped.send(frame);
    }

    /// What the client of each websocket said first, oldest first.
    pub fn openings(&self) -> Vec<String> {
        self.openings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Passes on what a client says until either side ends, and notes its first frame where that is a text.
    pub async fn overhear(
        &self,
        mut client: impl AsyncRead + Unpin,
        mut server: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (bytes, text) = read_short_text(&mut client).await?;
        if let Some(text) = text {
            self.openings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(text);
        }
        server.write_all(&bytes).await?;
        server.flush().await?;
        tokio::io::copy(&mut client, &mut server).await.map(drop)
    }

    /// Passes frames on until either side ends.
    pub async fn relay(
        &self,
        mut server: impl AsyncRead + Unpin,
        mut client: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut held = self.held.subscribe();
        let mut slipped = self.slipped.subscribe();
        let (arrived, mut arrivals) = mpsc::channel(BACKLOG);
        // A frame is read in several steps, which must not be given up half-way.
        let reading = async move {
            while let Ok(raw) = read_frame(&mut server).await {
                if arrived.send(raw).await.is_err() {
                    break;
                }
            }
        };
        let writing = async {
            loop {
                let frames = tokio::select! {
                    raw = arrivals.recv() => match raw {
                        Some(raw) => self.edited(&raw),
                        None => return Ok(()),
                    },
                    Ok(frame) = slipped.recv() => vec![frame.bytes()],
                };
                // Its sender is ours.
                let _ = held.wait_for(|held| !held).await;
                for frame in frames {
                    client.write_all(&frame).await?;
                }
                client.flush().await?;
            }
        };
        let mut reading = pin!(async {
            reading.await;
            // What it has read is still to be written.
            std::future::pending::<()>().await;
        });
        tokio::select! {
            () = &mut reading => Ok(()),
            result = writing => result,
        }
    }

    fn edited(&self, raw: &Raw) -> Vec<Vec<u8>> {
        let edit = self.edit.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*edit, String::from_utf8(raw.payload.clone())) {
            (Some(edit), Ok(text)) if raw.first == WHOLE_TEXT => edit(text)
                .iter()
                .map(|text| frame(WHOLE_TEXT, text.as_bytes()))
                .collect(),
            _ => vec![frame(raw.first, &raw.payload)],
        }
    }
}

/// A frame as it came.
struct Raw {
    /// What it is, and whether more of it follows.
    first: u8,
    payload: Vec<u8>,
}

/// Reads a frame of a server, which never masks them.
async fn read_frame(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Raw> {
    let first = from.read_u8().await?;
    let length = match from.read_u8().await? {
        126 => u64::from(from.read_u16().await?),
        127 => from.read_u64().await?,
        length if length < 126 => u64::from(length),
        _ => return Err(io::Error::other("a masked frame of a server")),
    };
    let mut payload = Vec::new();
    from.take(length).read_to_end(&mut payload).await?;
    if payload.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Raw { first, payload })
}

/// Reads the beginning of what a client says: a whole frame with its text if it is a short text, and else what tells that it is none.
async fn read_short_text(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<(Vec<u8>, Option<String>)> {
    let mut head = [0; 2];
    from.read_exact(&mut head).await?;
    // A client masks all that it says.
    let length = usize::from(head[1] & 0x7F);
    if head[0] != WHOLE_TEXT || head[1] & 0x80 == 0 || length >= 126 {
        return Ok((head.to_vec(), None));
    }
    let mut rest = vec![0; 4 + length];
    from.read_exact(&mut rest).await?;
    let (mask, masked) = rest.split_at(4);
    let plain = masked.iter().zip(mask.iter().cycle());
    let text = String::from_utf8(plain.map(|(byte, mask)| byte ^ mask).collect()).ok();
    Ok(([&head[..], &rest].concat(), text))
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let length = payload.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => bytes.push(short),
        (_, Ok(middle)) => {
            bytes.push(126);
            bytes.extend(middle.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_of_all_lengths_are_read_as_they_were_written() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            let bytes = frame(WHOLE_TEXT, &payload);
            let raw = read_frame(&mut bytes.as_slice()).await.unwrap();
            assert_eq!((raw.first, raw.payload), (WHOLE_TEXT, payload));
            assert!(read_frame(&mut &bytes[..bytes.len() - 1]).await.is_err());
        }
    }

    #[tokio::test]
    async fn the_first_text_of_a_client_is_noted_and_all_it_says_passed_on() {
        let masked = [0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2];
        let ping = [0x89, 0x80, 1, 2, 3, 4];
        for (said, openings) in [
            ([&masked[..], &ping].concat(), vec!["hi".to_owned()]),
            ([&ping[..], &masked].concat(), Vec::new()),
        ] {
            let frames = Frames::default();
            let mut got = Vec::new();
            frames.overhear(said.as_slice(), &mut got).await.unwrap();
            assert_eq!((got, frames.openings()), (said, openings));
        }
    }

    #[tokio::test]
    async fn what_was_read_before_the_end_is_still_passed_on() {
        let frames = Frames::default();
        frames.edit(Some(Arc::new(|text| vec![text.clone(), text])));
        let sent = [frame(WHOLE_TEXT, b"a"), frame(0x8A, b"pong")].concat();
        let mut got = Vec::new();
        frames.relay(sent.as_slice(), &mut got).await.unwrap();
        let twice = [frame(WHOLE_TEXT, b"a"), frame(WHOLE_TEXT, b"a")].concat();
        assert_eq!(got, [twice, frame(0x8A, b"pong")].concat());
    }
}
