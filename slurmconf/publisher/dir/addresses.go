package dir

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Addresses resolves the names of nodes, as Slurm does. A machine may have its own name at a
// loopback address, which is of no use to others.
func (s *Store) Addresses(ctx context.Context, nodes []string) (map[string]netip.Addr, error) {
	return resolve(ctx, nodes, net.DefaultResolver.LookupNetIP)
}

func resolve(ctx context.Context, nodes []string, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) (map[string]netip.Addr, error) {
	out := make(map[string]netip.Addr, len(nodes))
	for _, node := range nodes {
		all, err := lookup(ctx, "ip", node)
		if err != nil {
			return nil, fmt.Errorf("address of node %s: %w: its name must resolve here, by DNS or /etc/hosts", node, err)
		}
		for i := range all {
			all[i] = all[i].Unmap()
		}
		all = slices.DeleteFunc(all, func(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() })
		if len(all) == 0 {
			return nil, fmt.Errorf("address of node %s: its name resolves to no address that others reach: take the loopback address out of /etc/hosts, or run this on another machine", node)
		}
		out[node] = slices.MinFunc(all, func(a, b netip.Addr) int {
			if a.Is4() != b.Is4() {
				if a.Is4() {
					return -1
				}
				return 1
			}
			return a.Compare(b)
		})
	}
	return out, nil
}
