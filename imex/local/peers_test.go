package local

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// domainText is what nvidia-imex-ctl -N -j prints of n1 to n4, asked on n1. row has the
// connections of n1, a letter for each node. Nodes that are away give no answer, and those that
// are mute give none at the command port and are connected to each other.
func domainText(t testing.TB, status, row string, away, mute []string) string {
	t.Helper()
	words := map[rune]string{'C': "CONNECTED", 'I': "INVALID", 'R': "RECOVERING", 'V': "VERSION_MISMATCH"}
	nodes := map[string]any{}
	for i := range row {
		name, host := fmt.Sprintf("n%d", i+1), fmt.Sprintf("10.0.0.%d", i+1)
		silent := slices.Contains(away, name) || slices.Contains(mute, name)
		connections := map[string]any{}
		for k, letter := range row {
			peer, status := fmt.Sprintf("n%d", k+1), "CONNECTED"
			switch {
			case i == 0:
				status = words[letter]
			case silent:
				status = "INVALID"
			case slices.Contains(away, peer):
				status = "RECOVERING"
			case k == 0:
				status = words[rune(row[i])]
			}
			if status != "" { // a dot: the node says nothing of the other
				connections[fmt.Sprint(k)] = map[string]any{"host": fmt.Sprintf("10.0.0.%d", k+1), "status": status, "changed": !silent}
			}
		}
		node := map[string]any{"status": "READY", "host": host, "connections": connections, "changed": true, "version": "580.95.05"}
		if silent {
			node["status"], node["version"], node["changed"] = "UNAVAILABLE", "", false
		}
		nodes[fmt.Sprint(i)] = node
	}
	text, err := json.MarshalIndent(map[string]any{"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": status}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// peersText is a list of peers as one line.
func peersText(all []topology.IMEXPeer) string {
	var words []string
	for _, p := range all {
		words = append(words, p.Address+"="+p.Name+":"+p.State)
	}
	return strings.Join(words, " ")
}

// routesText is what the kernel says of the machine 10.0.0.1.
const routesText = `Main:
  +-- 0.0.0.0/0 3 0 5
     +-- 10.0.0.0/24 2 0 2
        +-- 10.0.0.0/30 2 0 2
           |-- 10.0.0.0
              /24 link UNICAST
           |-- 10.0.0.1
              /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
Local:
`

func TestPeers(t *testing.T) {
	const names = "# comment\n10.0.0.1 slurm-1\n10.0.0.2 slurm-2 # rack 7\n10.0.0.3 slurm-3\n10.0.0.4 slurm-4\n"
	tests := []struct {
		name, text string
		files      map[string]string // beside the list of nodes
		want       string
	}{
		{"all ready", domainText(t, "UP", "CCCC", nil, nil), nil, ""},
		{"one is down, and nothing has names", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), nil, "10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"a one-way fault", domainText(t, "DEGRADED", "CICC", nil, nil), nil, "10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"a one-way fault of a domain that is up", domainText(t, "UP", "CICC", nil, nil), nil, "10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"another version", domainText(t, "DEGRADED", "CCVC", nil, nil), nil, "10.0.0.1=:self 10.0.0.2=:connected 10.0.0.3=:dead 10.0.0.4=:connected"},
		{"two are down, and a file has the names", domainText(t, "DEGRADED", "CRRC", []string{"n2", "n3"}, nil), map[string]string{NamesFile: names},
			"10.0.0.1=slurm-1:self 10.0.0.2=slurm-2:dead 10.0.0.3=slurm-3:dead 10.0.0.4=slurm-4:connected"},
		{"all others are unavailable, and connected", domainText(t, "DEGRADED", "CCCC", nil, []string{"n2", "n3", "n4"}), nil, ""},
		{"all are connected, and the domain says that it is down", domainText(t, "DOWN", "CCCC", nil, nil), nil, ""},
		{"all others are unavailable, and one is not connected", domainText(t, "DEGRADED", "CCRC", nil, []string{"n2", "n3", "n4"}), nil,
			"10.0.0.1=:self 10.0.0.2=:connected 10.0.0.3=:dead 10.0.0.4=:connected"},
		{"the node says nothing of one", domainText(t, "DEGRADED", "CC.C", nil, []string{"n3"}), nil,
			"10.0.0.1=:self 10.0.0.2=:connected 10.0.0.3=:unknown 10.0.0.4=:connected"},
		{"nobody answers, the node itself neither", domainText(t, "DOWN", "IIII", nil, []string{"n1", "n2", "n3", "n4"}), nil,
			"10.0.0.1=:self 10.0.0.2=:unknown 10.0.0.3=:unknown 10.0.0.4=:unknown"},
		{"a file with names of other addresses", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), map[string]string{NamesFile: "10.9.0.2 x\n"},
			"10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"a file that lacks the one that is down", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), map[string]string{NamesFile: "10.0.0.1 slurm-1\n"},
			"10.0.0.1=slurm-1:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"one waits, and says so", replaceStatus(t, domainText(t, "DEGRADED", "CCCC", nil, nil), "2", "WAITING_FOR_RECOVERY"), nil,
			"10.0.0.1=:self 10.0.0.2=:connected 10.0.0.3=:dead 10.0.0.4=:connected"},
		{"the node itself waits", replaceStatus(t, domainText(t, "DEGRADED", "CICC", nil, nil), "0", "WAITING_FOR_PEERS"), nil,
			"10.0.0.1=:self 10.0.0.2=:unknown 10.0.0.3=:unknown 10.0.0.4=:unknown"},
		{"addresses in another form", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.2"`, `"::ffff:10.0.0.2"`), nil,
			"10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"a host name in nodes_config.cfg", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.2"`, `"gb-2"`), map[string]string{NamesFile: "10.0.0.1 slurm-1\ngb-2 slurm-2\n"},
			"10.0.0.1=slurm-1:self 10.0.0.3=:connected 10.0.0.4=:connected gb-2=slurm-2:dead"},
		{"connections without hosts", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"10.0.0.1","connections":{"1":{"status":"RECOVERING"}}},"1":{"status":"UNAVAILABLE","host":"10.0.0.2"}}}`, nil,
			"10.0.0.1=:self 10.0.0.2=:unknown"},
		{"two connections to one node", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"10.0.0.1","connections":{"1":{"host":"10.0.0.2","status":"RECOVERING"},"2":{"host":"10.0.0.2","status":"CONNECTED"}}},"1":{"status":"UNAVAILABLE","host":"10.0.0.2"}}}`, nil,
			"10.0.0.1=:self 10.0.0.2=:dead"},
		{"connections by other numbers", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"10.0.0.1","connections":{"1":{"host":"10.0.0.3","status":"CONNECTED"},"2":{"host":"10.0.0.2","status":"RECOVERING"}}},"1":{"status":"UNAVAILABLE","host":"10.0.0.2"},"2":{"status":"UNAVAILABLE","host":"10.0.0.3"}}}`, nil,
			"10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := question{root: t.TempDir()}
			q.nodes = filepath.Join(q.root, "etc/nvidia-imex", NodesFile)
			put.File(t, filepath.Join(q.root, addressesFile), routesText, 0o600)
			for name, text := range tt.files {
				put.File(t, filepath.Join(q.root, "etc/nvidia-imex", name), text, 0o600)
			}
			for range 3 { // maps have no order
				said, err := q.parseDomain([]byte(tt.text))
				if got := peersText(said.peers); err != nil || got != tt.want {
					t.Errorf("got  %s, %v\nwant %s", got, err, tt.want)
				}
			}
		})
	}
}

// replaceStatus gives a node of an answer another state.
func replaceStatus(t *testing.T, text, node, status string) string {
	t.Helper()
	var d map[string]any
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	d["nodes"].(map[string]any)[node].(map[string]any)["status"] = status
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPeersOfNobody has no node of the answer that is surely this machine: nothing is known of the peers.
func TestPeersOfNobody(t *testing.T) {
	root := t.TempDir()
	put.File(t, filepath.Join(root, addressesFile), routesText, 0o600)
	for _, tt := range []struct{ name, text, err string }{
		{"another network", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.`, `"10.9.0.`), "0 of the 4 nodes have an address of this machine: want one"},
		{"host names", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.`, `"gb-`), "0 of the 4 nodes have an address of this machine: want one"},
		{"a domain that is whole", strings.ReplaceAll(domainText(t, "UP", "CCCC", nil, nil), `"10.0.0.`, `"10.9.0.`), ""},
	} {
		said, err := question{root: root}.parseDomain([]byte(tt.text))
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err || said.peers != nil {
			t.Errorf("%s: %+v, %v, want %s", tt.name, said, err, tt.err)
		}
	}
}

// TestPeersMalformed has answers in which nobody can tell the nodes from each other.
func TestPeersMalformed(t *testing.T) {
	var many strings.Builder
	for i := range maxPeers + 1 {
		fmt.Fprintf(&many, `,"%d":{"host":"10.0.%d.1"}`, i, i)
	}
	for _, tt := range []struct{ name, text, err string }{
		{"no JSON", "READY", "not JSON with a status"},
		{"a list", "[]", "not JSON with a status"},
		{"null", "null", "not JSON with a status"},
		{"nodes are a list", `{"status":"UP","nodes":[]}`, "not JSON with a status"},
		{"nodes are a word", `{"status":"UP","nodes":"oops"}`, "not JSON with a status"},
		{"a connection is a word", `{"status":"UP","nodes":{"0":{"host":"a","connections":{"1":"CONNECTED"}}}}`, "not JSON with a status"},
		{"cut off", `{"status":"DEGRADED","nodes":{"0":{"host":"10.0`, "not JSON with a status"},
		{"no status", `{"nodes":{}}`, "not JSON with a status"},
		{"no nodes", `{"status":"DEGRADED"}`, "the answer says DEGRADED, and names no nodes"},
		{"a node without a host", `{"status":"DEGRADED","nodes":{"0":{"status":"READY"}}}`, "has no host"},
		{"a host that is none", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"a b"}}}`, "has no host"},
		{"two nodes with one host", `{"status":"DEGRADED","nodes":{"0":{"host":"10.0.0.1"},"1":{"host":"10.0.0.1"}}}`, "or two have the same"},
		{"too many nodes", `{"status":"DEGRADED","nodes":{` + many.String()[1:] + `}}`, "the answer has 65 nodes: want 64 at most"},
	} {
		said, err := question{root: t.TempDir()}.parseDomain([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.err) || said.state != "" || said.peers != nil {
			t.Errorf("%s: %+v, %v, want %s", tt.name, said, err, tt.err)
		}
	}
}

// TestPeersRead asks the program. A file of names that cannot be right is a problem.
func TestPeersRead(t *testing.T) {
	m := newDaemonMachine(t, hostConfig)
	put.File(t, filepath.Join(m.root, addressesFile), routesText, 0o600)
	m.says("READY", domainText(t, "DEGRADED", "CRC", []string{"n2"}, nil))
	read := func(want string) {
		t.Helper()
		facts, problems := m.local.Read(true)
		if got := peersText(facts.Peers); facts.DomainState != "DEGRADED" || got != want || problems != nil {
			t.Errorf("%s: %s, %v, want %s", facts.DomainState, got, problems, want)
		}
	}
	read("10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected")
	names := filepath.Join(m.root, "etc/nvidia-imex", NamesFile)
	put.File(t, names, "10.0.0.2 n2\n10.0.0.1 n1\n", 0o600)
	read("10.0.0.1=n1:self 10.0.0.2=n2:dead 10.0.0.3=:connected")
	put.File(t, names, "10.0.0.2 n2\n10.0.0.3 n2\n", 0o600)
	read("10.0.0.1=n1:self 10.0.0.2=n2:dead 10.0.0.3=:connected") // one question without an answer
	if got, want := m.read(), "235 0 READY/ true\nImexUnreadable: IMEX: domain's state: nvidia-imex-ctl -c ROOT/etc/nvidia-imex/config.cfg -N -j: ROOT/etc/nvidia-imex/nodes_names.cfg: line 2: want an address and a name in Slurm, each once"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	address := netip.MustParseAddr
	nodes, named := FormatNodes(map[netip.Addr]string{address("10.0.0.20"): "a", address("10.0.0.3"): "b", address("fd00::1"): "c"})
	const head = "# The nodes of nodes_config.cfg and their names in Slurm, written by quoin imex nodes-config.\n"
	if string(nodes) != "10.0.0.3\n10.0.0.20\nfd00::1\n" || string(named) != head+"10.0.0.3 b\n10.0.0.20 a\nfd00::1 c\n" {
		t.Errorf("%s\n%s", nodes, named)
	}
	for text, want := range map[string]string{
		string(named):                        "map[10.0.0.20:a 10.0.0.3:b fd00::1:c]",
		"":                                   "map[]",
		"# 10.0.0.1 a\n\n":                   "map[]",
		"::ffff:10.0.0.1 a # b\n":            "map[10.0.0.1:a]",
		"gb-1 a\n":                           "map[gb-1:a]",
		"10.0.0.1 a\n10.0.0.2\n":             "line 2",
		"10.0.0.1 a b\n":                     "line 1",
		"10.0.0.1 N/A\n":                     "line 1",
		"10.0.0.1 n[1-2]\n":                  "line 1",
		"10.0.0.1 a\n10.0.0.1 b\n":           "line 2",
		"10.0.0.1 a\n10.0.0.2 a\n":           "line 2",
		"10.0.0.1 a\n::ffff:10.0.0.1 a\n#\n": "line 2",
	} {
		names, err := parseNames([]byte(text))
		got := fmt.Sprint(names)
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), ":")
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestMachineAddresses(t *testing.T) {
	root := t.TempDir()
	if got := machineAddresses(root); len(got) > 0 {
		t.Errorf("without files: %v", got)
	}
	put.File(t, filepath.Join(root, addressesFile), routesText, 0o600)
	put.File(t, filepath.Join(root, addresses6File), "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000002 04 40 00 82     eth0\nx\n\n", 0o600)
	if got, want := fmt.Sprint(machineAddresses(root)), "map[10.0.0.1:true fd00::2:true]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// checkPeers checks what holds for every list of peers.
func checkPeers(t *testing.T, peers []topology.IMEXPeer) {
	t.Helper()
	self, apart, names := 0, false, map[string]bool{}
	for _, p := range peers {
		switch p.State {
		case topology.PeerSelf:
			self++
		case topology.PeerDead, topology.PeerUnknown:
			apart = true
		case topology.PeerConnected:
		default:
			t.Errorf("state %q", p.State)
		}
		if p.Address == "" || hostOf(p.Address) != p.Address || p.Name != "" && names[p.Name] {
			t.Errorf("%+v", p)
		}
		names[p.Name] = true
	}
	sorted := slices.IsSortedFunc(peers, func(a, b topology.IMEXPeer) int { return strings.Compare(a.Address, b.Address) })
	if len(peers) > 0 && self != 1 || len(peers) > maxPeers || apart != (len(peers) > 0) || !sorted {
		t.Errorf("peers %s", peersText(peers))
	}
}

func FuzzPeers(f *testing.F) {
	down := domainText(f, "DEGRADED", "CRCC", []string{"n2"}, nil)
	f.Add(down, "10.0.0.2 n2\n", routesText)
	f.Add(domainText(f, "DEGRADED", "CCCC", nil, []string{"n2", "n3", "n4"}), "", "")
	f.Add(strings.ReplaceAll(down, `"10.0.0.2"`, `"gb-2"`), "gb-2 n2\n", routesText)
	f.Fuzz(func(t *testing.T, text, names, routes string) {
		d, err := parseDomain([]byte(text))
		if err != nil {
			return
		}
		addresses := map[string]bool{}
		parseAddresses([]byte(routes), addresses)
		parseAddresses6([]byte(routes), addresses)
		named, _ := parseNames([]byte(names))
		peers, err := d.peers(addresses, named)
		if err != nil && peers != nil {
			t.Errorf("%v, and %s", err, peersText(peers))
		}
		checkPeers(t, peers)
	})
}
