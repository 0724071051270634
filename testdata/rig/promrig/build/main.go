// Command build fetches Debian's Prometheus before the tests need it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quoin-hpc/quoin/testdata/rig/promrig"
)

func main() {
	dir, err := promrig.Build(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("Prometheus is in %s\n", dir)
}
