//! TLS, as the client library wants it.

use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, ErrorKind, Result};
use crate::stores::tls::Tls;

/// What makes TLS of a connection: the server's certificate is checked, its name with it.
pub(super) fn connector(tls: &Tls) -> Result<MakeRustlsConnect> {
    let wrong = |why: String| Error::new(ErrorKind::Misconfigured, why);
    let certificates = tls.read().map_err(wrong)?;
    let Some(authorities) = certificates.authorities else {
        let native = MakeRustlsConnect::with_native_certs().map(|(native, _)| native);
        return native.map_err(|errors| wrong(untrusting(&errors)));
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.certificates);
    let builder = ClientConfig::builder().with_root_certificates(roots);
    let config = match certificates.client {
        None => builder.with_no_client_auth(),
        Some(client) => builder
            .with_client_auth_cert(client.chain.certificates, client.key)
            .map_err(|error| wrong(format!("cert and key are no use ({error})")))?,
    };
    Ok(MakeRustlsConnect::new(config))
}

fn untrusting(errors: &[impl std::fmt::Display]) -> String {
    let why = errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    format!("the authorities that this system trusts can't be read ({why}); name one with ca=FILE")
}
