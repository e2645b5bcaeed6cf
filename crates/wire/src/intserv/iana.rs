//! IntServ's code points, from the registry "Integrated Services (integ-serv) Parameters"
//! (<https://www.iana.org/assignments/integ-serv>).

code_points! {
    /// Service numbers (RFC 2215 section 2, RFC 2211, RFC 2212).
    pub enum Service: u8 {
        General = 1 "default general parameters",
        Guaranteed = 2 "guaranteed",
        ControlledLoad = 5 "controlled load",
    }
}

code_points! {
    /// Parameter numbers on the wire, that is composed parameters and traffic specifications (RFC 2215 section 3, RFC
    /// 2212). Numbers up to 127 have the same meaning in every service.
    pub enum Parameter: u8 {
        NumberOfIsHops = 4 "NUMBER_OF_IS_HOPS",
        AvailablePathBandwidth = 6 "AVAILABLE_PATH_BANDWIDTH",
        MinimumPathLatency = 8 "MINIMUM_PATH_LATENCY",
        PathMtu = 10 "PATH_MTU",
        TokenBucketTspec = 127 "TOKEN_BUCKET_TSPEC",
        GuaranteedRspec = 130 "GUARANTEED_SERVICE_RSPEC",
        CTotal = 133 "Ctot",
        DTotal = 134 "Dtot",
        CSum = 135 "Csum",
        DSum = 136 "Dsum",
    }
}
