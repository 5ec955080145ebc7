//go:build tools

// Package tools names the program built from this module, so that go.sum holds what it needs.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
