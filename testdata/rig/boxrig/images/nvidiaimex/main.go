// Command nvidiaimex plays two programs of NVIDIA's, by the name that it is called by:
// nvidia-imex runs until a signal ends it, and nvidia-imex-ctl prints READY.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	if filepath.Base(os.Args[0]) == "nvidia-imex-ctl" {
		fmt.Println("READY")
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	for s := range signals {
		if s != syscall.SIGUSR1 { // read the nodes again
			return
		}
	}
}
