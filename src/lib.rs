//! garm-operator.
