// Package loopback gives servers of tests addresses that nobody else listens on: a
// port that is free now may be taken by the time a server is there.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Host returns a loopback address of its own, of 16 million.
func Host() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254)) //nolint:gosec // no secret
}

// Address returns a port at a loopback address of its own.
func Address(port int) string { return net.JoinHostPort(Host(), strconv.Itoa(port)) }
