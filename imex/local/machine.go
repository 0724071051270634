package local

import (
	"encoding/hex"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// The machine's own addresses, below its root. Process 1 is the machine's for an
// agent that sees the machine's processes, also in a pod with a network of its own.
const (
	addressesFile  = "proc/1/net/fib_trie"
	addresses6File = "proc/1/net/if_inet6"
)

// machineAddresses reads the machine's addresses. What cannot be read has none.
func machineAddresses(root string) map[string]bool {
	out := map[string]bool{}
	if data, err := atomicfile.Read(filepath.Join(root, addressesFile)); err == nil {
		parseAddresses(data, out)
	}
	if data, err := atomicfile.Read(filepath.Join(root, addresses6File)); err == nil {
		parseAddresses6(data, out)
	}
	return out
}

// parseAddresses reads the kernel's routes: a line with an address, and below it what the
// address is.
func parseAddresses(routes []byte, out map[string]bool) {
	var last netip.Addr
	for line := range strings.Lines(string(routes)) {
		line = strings.TrimSpace(line)
		if text, is := strings.CutPrefix(line, "|-- "); is {
			last, _ = netip.ParseAddr(text)
		} else if line == "/32 host LOCAL" && last.IsValid() && !last.IsLoopback() {
			out[last.String()] = true
		}
	}
}

// parseAddresses6 reads the kernel's IPv6 addresses, one a line, in hexadecimal.
func parseAddresses6(list []byte, out map[string]bool) {
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		raw, err := hex.DecodeString(words[0])
		if address, is := netip.AddrFromSlice(raw); err == nil && is && address.Is6() && !address.IsLoopback() {
			out[address.Unmap().String()] = true
		}
	}
}
