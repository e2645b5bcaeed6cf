//! TLS of connections: both sides authenticate, and only configured peers are accepted.
//!
//! Certificates are checked as usual with one exception: a node of GIST knows its neighbor's address, but not its name, so
//! that the certificate must contain one of the names of all accepted peers. Raw public keys (RFC 7250) need no authority: the
//! key itself is configured. Sessions are not resumed: connections last for hours, and each one is checked against the
//! current settings.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    AlwaysResolvesClientRawPublicKeys, Resumption, verify_server_cert_signed_by_trust_anchor,
    verify_server_name,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime, pem,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ParsedCertificate,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};

use super::TlsError;
use crate::streams::settings::{Identity, TlsSettings};

/// Configurations of TLS in both roles.
#[derive(Clone)]
pub(in crate::streams) struct Tls {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the configured files.
    pub(in crate::streams) fn load(settings: &TlsSettings) -> Result<Tls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(of_file(&settings.key))?;
        let verifier = Arc::new(Verifier::load(&settings.identity, &provider)?);
        let (mut client, mut server) = match &settings.identity {
            Identity::Certificates { chain, .. } => {
                let chain = certificates(chain)?;
                by_certificates(&provider, verifier, chain, key)?
            }
            Identity::PublicKeys(_) => by_public_keys(&provider, verifier, key)?,
        };
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Tls { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn by_certificates(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<Verifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<(ClientConfig, ServerConfig), TlsError> {
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(of_identity)?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(of_identity)?;
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(of_identity)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(of_identity)?;
    Ok((client, server))
}

/// Configurations with raw public keys, for TLS 1.3 only, because this library cannot sign for TLS 1.2 with them.
fn by_public_keys(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<Verifier>,
    key: PrivateKeyDer<'static>,
) -> Result<(ClientConfig, ServerConfig), TlsError> {
    let key = provider.key_provider.load_private_key(key).map_err(of_identity)?;
    let public = key
        .public_key()
        .ok_or_else(|| TlsError::Identity("the private key yields no public key".to_owned()))?;
    let public = CertificateDer::from(public.to_vec());
    let own = Arc::new(CertifiedKey::new(vec![public], key));
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(of_identity)?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own.clone())));
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(of_identity)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
    Ok((client, server))
}

/// Verifies that a neighbor is authentic and accepted, in both roles.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Trust {
    Certificates {
        authorities: Arc<RootCertStore>,
        /// Verifier of the chain of a connecting neighbor.
        clients: Arc<dyn ClientCertVerifier>,
        names: Vec<ServerName<'static>>,
    },
    PublicKeys(Vec<SubjectPublicKeyInfoDer<'static>>),
}

impl Verifier {
    fn load(identity: &Identity, provider: &Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
        let trust = match identity {
            Identity::Certificates { authorities, peers, .. } => {
                let mut store = RootCertStore::empty();
                for certificate in certificates(authorities)? {
                    store.add(certificate).map_err(of_identity)?;
                }
                let store = Arc::new(store);
                let clients =
                    WebPkiClientVerifier::builder_with_provider(store.clone(), provider.clone())
                        .build()
                        .map_err(|error| TlsError::Identity(error.to_string()))?;
                let name = |name: &String| {
                    ServerName::try_from(name.clone()).map_err(|_| TlsError::Name(name.clone()))
                };
                let names = peers.iter().map(name).collect::<Result<_, _>>()?;
                Trust::Certificates { authorities: store, clients, names }
            }
            Identity::PublicKeys(path) => {
                let keys = SubjectPublicKeyInfoDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(of_file(path))?;
                if keys.is_empty() {
                    return Err(TlsError::Nothing { path: path.clone(), what: "public key" });
                }
                Trust::PublicKeys(keys)
            }
        };
        Ok(Verifier { trust, algorithms: provider.signature_verification_algorithms })
    }

    fn is_let_in(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let is_known = match &self.trust {
            Trust::Certificates { names, .. } => {
                let parsed = ParsedCertificate::try_from(certificate)?;
                names.iter().any(|name| verify_server_name(&parsed, name).is_ok())
            }
            Trust::PublicKeys(keys) => keys.iter().any(|key| key.as_ref() == certificate.as_ref()),
        };
        match is_known {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.trust {
            Trust::Certificates { .. } => {
                verify_tls13_signature(message, certificate, signature, &self.algorithms)
            }
            Trust::PublicKeys(_) => {
                let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
                verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
            }
        }
    }

    fn has_public_keys(&self) -> bool {
        matches!(self.trust, Trust::PublicKeys(_))
    }
}

/// Methods common to the verifiers of both roles: whether a neighbor has the key that it presents.
macro_rules! proofs_of_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verify_tls12(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verify_tls13(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            self.has_public_keys()
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Trust::Certificates { authorities, .. } = &self.trust {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(certificate)?,
                authorities,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        self.is_let_in(certificate)?;
        Ok(ServerCertVerified::assertion())
    }

    proofs_of_keys!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.trust {
            Trust::Certificates { clients, .. } => clients.root_hint_subjects(),
            Trust::PublicKeys(_) => &[],
        }
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Trust::Certificates { clients, .. } = &self.trust {
            clients.verify_client_cert(certificate, intermediates, now)?;
        }
        self.is_let_in(certificate)?;
        Ok(ClientCertVerified::assertion())
    }

    proofs_of_keys!();
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(of_file(path))?;
    match found.is_empty() {
        true => Err(TlsError::Nothing { path: path.to_owned(), what: "certificate" }),
        false => Ok(found),
    }
}

fn of_file(path: &Path) -> impl Fn(pem::Error) -> TlsError {
    move |error| TlsError::File { path: path.to_owned(), source: error.into() }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_identity(error: Error) -> TlsError {
    TlsError::Identity(error.to_string())
}
