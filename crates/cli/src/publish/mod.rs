//! `fermata publish`: publishes one item to an edge or Pushpin, with the options of `pushpin-publish`.

mod arguments;
mod item;
mod zmq;

use crate::error::Error;
use fermata_grip::packet::Notation;
use fermata_origin::{Address, Client, PublishError, Transport};

pub use arguments::Arguments;
use zmq::TIMEOUT;

/// Publishes the item and prints a confirmation.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let item = item::build(arguments)?;
    // Libraries treat `unix:` as the control socket of a server; here it is an HTTP control port on a Unix socket.
    let spec = match arguments.spec.strip_prefix("unix:") {
        Some(rest) => format!("http+unix:{rest}"),
        None => arguments.spec.clone(),
    };
    let mut address = Address::parse(&spec)
        .map_err(|error| Error::Misuse(format!("--spec or GRIP_URL: {error}")))?;
    if let Some(key) = &arguments.key {
        let set = address.set_key(key);
        set.map_err(|error| Error::Misuse(format!("--key or FERMATA_PUBLISH_KEY: {error}")))?;
    }
    match &address.transport {
        Transport::Http(url) => {
            let authorization = address
                .authorization(arguments.user.as_deref(), arguments.bearer.as_deref())
                .map_err(|error| error.to_string())?;
            let item = item.to_value(Notation::Json).to_json();
            Client::new(url.clone(), TIMEOUT)
                .publish(authorization.as_deref(), &[item])
                .map_err(|error| {
                    Error::Misuse(match error {
                        PublishError::Unreachable(_) => format!("{error} --spec names another"),
                        _ => error.to_string(),
                    })
                })?;
        }
        Transport::Zmq(endpoint)
            if arguments.user.is_none()
                && arguments.bearer.is_none()
                && arguments.key.is_none() =>
        {
            zmq::publish(endpoint, &item)?;
        }
        Transport::Zmq(_) => {
            return Err(Error::Misuse("ZeroMQ has no authentication; leave out --key, --user and --bearer, or publish to http://".into()));
        }
    }
    println!("Published");
    Ok(())
}
