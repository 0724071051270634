// Command build builds the programs of the Kubernetes rig before the tests need
// them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
)

func main() {
	dir, err := kuberig.Build(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("Kubernetes %s is in %s\n", kuberig.Version, dir)
}
