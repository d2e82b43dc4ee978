//! TLS, as the client library wants it.

use redis::{ClientTlsConfig, TlsCertificates};

use crate::stores::tls::Tls;

/// What the files hold; what is wrong with them, and how to mend it, if it is no use.
pub(super) fn certificates(tls: &Tls) -> Result<TlsCertificates, String> {
    let files = tls.read()?;
    let client_tls =
        files.client.map(|client| ClientTlsConfig { client_cert: client.chain.pem, client_key: client.key_pem });
    Ok(TlsCertificates { client_tls, root_cert: files.authorities.map(|authorities| authorities.pem) })
}
