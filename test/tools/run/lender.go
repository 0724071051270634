package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// lend lends API servers to the tests until stop is called.
func lend(ctx context.Context) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "quoin-lender-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "socket")
	socket, err := net.Listen("unix", path)
	if err == nil {
		err = os.Setenv(kuberig.Lender, path)
	}
	if err != nil {
		return nil, fmt.Errorf("lend API servers: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var loans, started int
	go func() {
		loans, started = kuberig.Lend(ctx, socket, dir)
		close(done)
	}()
	return func() {
		cancel()
		<-done
		fmt.Printf("%d API servers were lent %d times\n", started, loans)
		_ = os.RemoveAll(dir)
	}, nil
}
