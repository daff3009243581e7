//! A certificate whose signatures are all of one length, so that a handshake is of as many bytes each time. Of nobody: for the simulation alone.

pub const KEY: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MC4CAQAwBQYDK2VwBCIEIPO5Sbze2xXD3uXqTkzYaEF9FxAF9JSX3w1Z5y+CS3N6\n\
-----END PRIVATE KEY-----\n\
";

pub const CERT: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBVTCCAQegAwIBAgIUQF/7wEASJWTJyrR+nDh5M6OeA/YwBQYDK2VwMBQxEjAQ\n\
BgNVBAMMCWxvY2FsaG9zdDAgFw0yNjExMjUyMTI0MjhaGA8yMTI2MTEwMTIxMjQy\n\
OFowFDESMBAGA1UEAwwJbG9jYWxob3N0MCowBQYDK2VwAyEAf6fCMN0WlDBAlR7o\n\
j+8z9mtEhLaVJv8Sd5kgIwdY7GijaTBnMB0GA1UdDgQWBBSAA56Dw2r6c5r597DT\n\
333mZ4LwkDAfBgNVHSMEGDAWgBSAA56Dw2r6c5r597DT333mZ4LwkDAPBgNVHRMB\n\
Af8EBTADAQH/MBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAFBgMrZXADQQDVjdPH7nVp\n\
anoGOmA9KfQCPrm7cTm/KTJ8gsXmINFVVMQheRvSX1F8f55kDFDT2nYPAwOa7DTk\n\
QYYk9zLuXEkA\n\
-----END CERTIFICATE-----\n\
";
