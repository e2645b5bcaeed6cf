//! Numbers that all NSLPs share: <https://www.iana.org/assignments/nslp-parameters>.

/// Object type of SESSION_AUTH (RFC 5981 section 3.1); twelve bits.
pub const SESSION_AUTH: u16 = 0x016;

code_points! {
    /// Attribute types of SESSION_AUTH: X-Type (RFC 5981 section 8).
    pub enum XType: u8 {
        AuthEntId = 1 "AUTH_ENT_ID",
        SessionId = 2 "SESSION_ID",
        SourceAddress = 3 "SOURCE_ADDR",
        DestinationAddress = 4 "DEST_ADDR",
        StartTime = 5 "START_TIME",
        EndTime = 6 "END_TIME",
        NslpObjectList = 7 "NSLP_OBJECT_LIST",
        AuthenticationData = 8 "AUTHENTICATION_DATA",
    }
}

code_points! {
    /// Forms of the identifier of an authorizing entity: SubType of AUTH_ENT_ID (RFC 5981 section 8). 128 to 255 are for
    /// private use.
    pub enum EntityIdForm: u8 {
        Ipv4 = 1 "IPV4_ADDRESS",
        Ipv6 = 2 "IPV6_ADDRESS",
        Fqdn = 3 "FQDN",
        AsciiDn = 4 "ASCII_DN",
        UnicodeDn = 5 "UNICODE_DN",
        Uri = 6 "URI",
        KerberosPrincipal = 7 "KRB_PRINCIPAL",
        X509V3Cert = 8 "X509_V3_CERT",
        PgpCert = 9 "PGP_CERT",
        HmacSigned = 10 "HMAC_SIGNED",
        WebToken = 128 "WEB_TOKEN",
    }
}
