package tree

// PathsAbove returns by leaf the switches above it, from the top, each after a slash.
// Leaves without any are absent.
func PathsAbove(switches []Switch) map[string]string {
	above := ParentsOf(switches)
	paths := make(map[string]string)
	for i := range switches {
		leaf, path := switches[i].Name, ""
		if len(switches[i].Children) > 0 {
			continue
		}
		for tier, up := 0, above[leaf]; up != "" && tier < MaxTiers; tier, up = tier+1, above[up] {
			path = "/" + up + path
		}
		if path != "" {
			paths[leaf] = path
		}
	}
	return paths
}

// ParentsOf returns the switch above each switch.
func ParentsOf(switches []Switch) map[string]string {
	above := make(map[string]string, len(switches))
	for i := range switches {
		for _, c := range switches[i].Children {
			above[c] = switches[i].Name
		}
	}
	return above
}
