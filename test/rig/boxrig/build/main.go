// Command build builds the programs and images of the box before the tests need them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quoin-hpc/quoin/test/rig/boxrig"
)

func main() {
	if err := boxrig.Build(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("the box is built")
}
