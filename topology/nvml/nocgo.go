//go:build !cgo

package nvml

import (
	"context"
	"errors"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is NVML, which a program built without cgo cannot load.
type Library struct{}

var errNoCgo = errors.New("load NVML: this quoin was built without cgo; build it with a C compiler and CGO_ENABLED=1")

// Options say which library is opened, and where the machine's files are.
type Options struct{ Path, Root string }

// Open returns an error that says so.
func Open(Options) (*Library, error) { return nil, errNoCgo }

// WatchXids does nothing.
func (*Library) WatchXids(context.Context) {}

// Close does nothing.
func (*Library) Close() error { return nil }

// SampleDevices does nothing.
func (*Library) SampleDevices([]string) {}

// Sample is empty.
func (*Library) Sample() topology.Sample { return topology.Sample{} }

// Read returns an error that says so.
func (*Library) Read() (*topology.Node, error) { return nil, errNoCgo }
