//go:build !cgo

package nvml

import (
	"context"
	"errors"

	"github.com/quoin-hpc/quoin/topology"
)

// Library is NVML. A program built without cgo cannot load it.
type Library struct{}

var errNoCgo = errors.New("load NVML: this quoin was built without cgo; build it with a C compiler and CGO_ENABLED=1")

// Options name the library to open, and the place of the machine's files.
type Options struct {
	Path, Root, Sys string
	Whole           bool
}

// Open returns an error: there is no cgo.
func Open(Options) (*Library, error) { return nil, errNoCgo }

// WatchXids does nothing.
func (*Library) WatchXids(context.Context) {}

// Close does nothing.
func (*Library) Close() error { return nil }

// SampleDevices does nothing.
func (*Library) SampleDevices([]string) {}

// Sample is empty.
func (*Library) Sample() topology.Sample { return topology.Sample{} }

// Look is empty.
func (*Library) Look() topology.Sample { return topology.Sample{} }

// Read returns an error: there is no cgo.
func (*Library) Read() (*topology.Node, error) { return nil, errNoCgo }
