//! Real servers, fakes and proxies.
