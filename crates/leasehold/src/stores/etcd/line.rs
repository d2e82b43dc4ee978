//! The line to a member.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Bytes, Service};
use tonic::transport::{self, Channel};

/// A channel over which a request says with its last frame that it is the last.
///
/// By itself gRPC says so with an empty frame behind that. For a message of 256 bytes or more, as our claims are, it is a packet
/// of its own, and the server doesn't begin before it has come.
#[derive(Debug, Clone)]
pub(super) struct Line(Channel);

impl Line {
    pub fn over(channel: Channel) -> Self {
        Self(channel)
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = transport::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request.map(|body| Body::new(Foreseen::of(body))))
    }
}

/// What a body has next.
type Next = Option<Result<Frame<Bytes>, Status>>;

/// A body that looks ahead by a frame, if that is there.
struct Foreseen {
    body: Body,
    /// What has been read of it already: its end is none.
    ahead: Option<Next>,
}

impl Foreseen {
    fn of(body: Body) -> Self {
        Self { body, ahead: None }
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

impl http_body::Body for Foreseen {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Next> {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => ready!(self.read(context)),
        };
        // Behind an error or the end there is nothing to be read.
        if let Some(Ok(_)) = next
            && let Poll::Ready(ahead) = self.read(context)
        {
            self.ahead = Some(ahead);
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.ahead, Some(None)) || (self.ahead.is_none() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.ahead.is_none() { self.body.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures_util::future::poll_immediate;
    use futures_util::stream::{self, StreamExt};

    use super::*;

    /// A body that has these, one after the other: what is none has yet to come.
    struct Scripted(VecDeque<Option<Result<&'static str, Status>>>);

    impl http_body::Body for Scripted {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Next> {
            match self.0.pop_front() {
                Some(Some(frame)) => Poll::Ready(Some(frame.map(|data| Frame::data(data.into())))),
                Some(None) => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    /// What each look at it sees, and whether that was the last.
    async fn seen(script: impl IntoIterator<Item = Option<Result<&'static str, Status>>>) -> Vec<String> {
        let mut body = Foreseen::of(Body::new(Scripted(script.into_iter().collect())));
        let mut seen = Vec::new();
        loop {
            let next = poll_immediate(stream::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).next()).await;
            let last = if body.is_end_stream() { " and no more" } else { "" };
            match next {
                None => seen.push(format!("nothing yet{last}")),
                Some(Some(Ok(frame))) => seen.push(format!("{:?}{last}", frame.into_data().expect("data"))),
                Some(Some(Err(status))) => {
                    seen.push(status.message().to_owned());
                    return seen;
                }
                Some(None) => return seen,
            }
        }
    }

    #[tokio::test]
    async fn the_last_frame_says_so_and_none_is_lost_or_held_back() {
        assert_eq!(seen([Some(Ok("one"))]).await, [r#"b"one" and no more"#]);
        assert_eq!(seen([Some(Ok("one")), Some(Ok("two"))]).await, [r#"b"one""#, r#"b"two" and no more"#]);
        let late = [Some(Ok("one")), None, None, Some(Ok("two")), None];
        assert_eq!(seen(late).await, [r#"b"one""#, "nothing yet", r#"b"two""#]);
        assert_eq!(seen([Some(Ok("one")), Some(Err(Status::aborted("torn")))]).await, [r#"b"one""#, "torn"]);
        assert!(seen([]).await.is_empty());
    }
}
