//! TLS, as the client library wants it.

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::stores::tls::Tls;

/// What the client library is told of a server; what is wrong with the files, and how to mend it, if they are no use.
pub(super) fn config(tls: &Tls, host: &str) -> Result<ClientTlsConfig, String> {
    let files = tls.read()?;
    let config = ClientTlsConfig::new().domain_name(host);
    let config = match files.authorities {
        Some(authorities) => config.ca_certificate(Certificate::from_pem(authorities.pem)),
        None => config.with_native_roots(),
    };
    Ok(match files.client {
        Some(client) => config.identity(Identity::from_pem(client.chain.pem, client.key_pem)),
        None => config,
    })
}
