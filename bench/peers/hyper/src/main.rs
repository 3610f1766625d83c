//! `hyper PORT CERTIFICATE KEY`: serves a small JSON response with hyper over HTTP/2 and TLS, on one thread.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Failure = Box<dyn std::error::Error>;

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(br#"{"status":"OK"}"#)));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

async fn serve(port: u16, certificate: &str, key: &str) -> Result<(), Failure> {
    let certificates = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let mut tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_file(key)?)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    tls.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (connection, _) = listener.accept().await?;
        connection.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Ok(secure) = acceptor.accept(connection).await {
                let mut builder = Builder::new(TokioExecutor::new());
                builder.http2().max_concurrent_streams(100);
                // A connection closed by its client is no error of the server.
                drop(builder.serve_connection(TokioIo::new(secure), service_fn(answer)).await);
            }
        });
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, port, certificate, key] = &arguments[..] else {
        return Err("usage: hyper PORT CERTIFICATE KEY".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(port.parse()?, certificate, key))
}
