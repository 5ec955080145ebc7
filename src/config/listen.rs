//! Addresses to listen on, as Go writes them: `:8080`, `127.0.0.1:8080`, `[::1]:8080`; `0` is off.

use std::{fmt, net::Ipv6Addr};

/// Where a server listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// On one address.
    On {
        /// Name or IP address without brackets; empty: all interfaces.
        host: String,
        /// TCP port, never 0.
        port: u16,
    },
}

impl Listen {
    /// Parses an address. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let form = || {
            "is not an address; write for example :8080, 127.0.0.1:8080 or [::1]:8080, or 0 to switch it off".to_owned()
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or_else(form)?;
                inner.parse::<Ipv6Addr>().map_err(|_| form())?;
                inner
            }
            None if is_host(host) => host,
            None => return Err(form()),
        };
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form());
        }
        match port.parse() {
            Ok(0) => Err(
                "has port 0; write a port from 1 to 65535, or 0 alone to switch it off".to_owned(),
            ),
            Ok(port) => Ok(Self::On {
                host: host.to_owned(),
                port,
            }),
            Err(_) => Err("has a port outside 1 to 65535".to_owned()),
        }
    }

    /// Lists the addresses to try in this order; the first that can be bound is it. Empty when off.
    ///
    /// "All interfaces" means IPv6 and IPv4 together where the system has IPv6, else IPv4.
    pub fn candidates(&self) -> Vec<(String, u16)> {
        match self {
            Self::Off => Vec::new(),
            Self::On { host, port } if host.is_empty() => {
                vec![("::".to_owned(), *port), ("0.0.0.0".to_owned(), *port)]
            }
            Self::On { host, port } => vec![(host.clone(), *port)],
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::On { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::On { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// Tells whether a text can be a host name or an IPv4 address, or is empty.
fn is_host(text: &str) -> bool {
    text.is_empty()
        || (text.len() <= 253
            && text
                .strip_suffix('.')
                .unwrap_or(text)
                .split('.')
                .all(|label| {
                    (1..=63).contains(&label.len())
                        && label
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                        && !label.starts_with('-')
                        && !label.ends_with('-')
                }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_go_addresses_and_prints_them_back() {
        for text in [
            ":8080",
            "localhost:8080",
            "0.0.0.0:1",
            "[::1]:65535",
            "[::]:8081",
            "0",
            "a-b.example:80",
        ] {
            assert_eq!(Listen::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Listen::parse("0"), Ok(Listen::Off));
    }

    #[test]
    fn refuses_what_cannot_be_listened_on() {
        for text in [
            "",
            ":",
            ":0",
            "8080",
            ":x",
            ":+1",
            ":65536",
            ":99999999999",
            "a_b:80",
            "::1:80",
            "[::1]",
            "[::1:80",
            "[x]:80",
            "-a:80",
            "a..b:80",
            "http://a:80",
            "é:80",
        ] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
        assert!(Listen::parse(":0").unwrap_err().contains("port 0"));
    }

    #[test]
    fn all_interfaces_prefers_both_families() {
        let all = Listen::parse(":80").unwrap().candidates();
        assert_eq!(all, [("::".to_owned(), 80), ("0.0.0.0".to_owned(), 80)]);
        assert!(Listen::Off.candidates().is_empty());
    }
}
