package local

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// domainText is what nvidia-imex-ctl -N -j -H prints of n1 to n4, asked on n1. row has the
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
		node := map[string]any{"status": "READY", "host": host, "hostName": name, "connections": connections, "changed": true, "version": "580.95.05"}
		if silent {
			node["status"], node["hostName"], node["version"], node["changed"] = "UNAVAILABLE", "N/A", "", false
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
		files      map[string]string // of the machine, besides its routes; NamesFile by its own name
		want       string
	}{
		{"all ready", domainText(t, "UP", "CCCC", nil, nil), nil, ""},
		{"one is down", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), nil, "10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"a one-way fault", domainText(t, "DEGRADED", "CICC", nil, nil), nil, "10.0.0.1=n1:self 10.0.0.2=n2:dead 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"another version", domainText(t, "DEGRADED", "CCVC", nil, nil), nil, "10.0.0.1=n1:self 10.0.0.2=n2:connected 10.0.0.3=n3:dead 10.0.0.4=n4:connected"},
		{"two are down, and a file has the names", domainText(t, "DEGRADED", "CRRC", []string{"n2", "n3"}, nil), map[string]string{NamesFile: names},
			"10.0.0.1=slurm-1:self 10.0.0.2=slurm-2:dead 10.0.0.3=slurm-3:dead 10.0.0.4=slurm-4:connected"},
		{"two are down, and nothing has names", domainText(t, "DEGRADED", "CRRC", []string{"n2", "n3"}, nil), nil,
			"10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=:dead 10.0.0.4=n4:connected"},
		{"all others are unavailable, and connected", domainText(t, "DEGRADED", "CCCC", nil, []string{"n2", "n3", "n4"}), nil, ""},
		{"all others are unavailable, and one is not connected", domainText(t, "DEGRADED", "CCRC", nil, []string{"n2", "n3", "n4"}), nil,
			"10.0.0.1=n1:self 10.0.0.2=:connected 10.0.0.3=:dead 10.0.0.4=:connected"},
		{"the node says nothing of one", domainText(t, "DEGRADED", "CC.C", nil, []string{"n3"}), nil,
			"10.0.0.1=n1:self 10.0.0.2=n2:connected 10.0.0.3=:unknown 10.0.0.4=n4:connected"},
		{"nobody answers, the node itself neither", domainText(t, "DOWN", "IIII", nil, []string{"n1", "n2", "n3", "n4"}), nil,
			"10.0.0.1=:self 10.0.0.2=:unknown 10.0.0.3=:unknown 10.0.0.4=:unknown"},
		{"a file with names of other addresses", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), map[string]string{NamesFile: "10.9.0.2 x\n"},
			"10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"a file that lacks the one that is down", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), map[string]string{NamesFile: "10.0.0.1 slurm-1\n"},
			"10.0.0.1=slurm-1:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"host names in nodes_config.cfg", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.`, `"gb-`), map[string]string{nameFile: "gb-1.example.org\n"},
			"gb-1=gb-1:self gb-2=gb-2:dead gb-3=gb-3:connected gb-4=gb-4:connected"},
		{"machines with one name", strings.NewReplacer(`"n3"`, `"gpu"`, `"n4"`, `"gpu"`).Replace(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil)), nil,
			"10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"machines without a name", strings.NewReplacer(`"n3"`, `"localhost.localdomain"`, `"n4"`, `"(none)"`).Replace(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil)), nil,
			"10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"one waits, and says so", replaceStatus(t, domainText(t, "DEGRADED", "CCCC", nil, nil), "2", "WAITING_FOR_RECOVERY"), nil,
			"10.0.0.1=n1:self 10.0.0.2=n2:connected 10.0.0.3=n3:dead 10.0.0.4=n4:connected"},
		{"an older program without names", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"hostName"`, `"x"`), nil,
			"10.0.0.1=:self 10.0.0.2=:dead 10.0.0.3=:connected 10.0.0.4=:connected"},
		{"addresses in another form", strings.ReplaceAll(domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), `"10.0.0.2"`, `"::ffff:10.0.0.2"`), nil,
			"10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"connections without hosts", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"10.0.0.1","connections":{"1":{"status":"RECOVERING"}}},"1":{"status":"UNAVAILABLE","host":"10.0.0.2"}}}`, nil,
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
				if name == NamesFile {
					name = filepath.Join("etc/nvidia-imex", name)
				}
				put.File(t, filepath.Join(q.root, name), text, 0o600)
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

// TestPeersOfNobody has a machine whose own entry is not clear: all that are ready have to say
// the same.
func TestPeersOfNobody(t *testing.T) {
	all := func(row string) string { return domainText(t, "DEGRADED", row, nil, nil) }
	for _, tt := range []struct{ name, text, want string }{
		{"all agree that one is down", domainText(t, "DEGRADED", "CRCC", []string{"n2"}, nil), "10.0.0.1=n1:connected 10.0.0.2=:dead 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"two do not reach each other", all("CRCC"), "10.0.0.1=n1:unknown 10.0.0.2=n2:unknown 10.0.0.3=n3:connected 10.0.0.4=n4:connected"},
		{"the only one that answers is the node itself", domainText(t, "DEGRADED", "CCRC", nil, []string{"n2", "n3", "n4"}), "10.0.0.1=n1:self 10.0.0.2=:connected 10.0.0.3=:dead 10.0.0.4=:connected"},
		{"nobody says anything, and the domain is up", `{"status":"UP","nodes":{"0":{"status":"READY","host":"10.0.0.1"},"1":{"status":"READY","host":"10.0.0.2"}}}`, ""},
		{"nobody says anything, and the domain is not", `{"status":"DEGRADED","nodes":{"0":{"status":"READY","host":"10.0.0.1"},"1":{"status":"READY","host":"10.0.0.2"}}}`, "10.0.0.1=:unknown 10.0.0.2=:unknown"},
	} {
		said, err := question{root: t.TempDir()}.parseDomain([]byte(tt.text))
		if got := peersText(said.peers); err != nil || got != tt.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", tt.name, got, err, tt.want)
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

// TestPeersRead asks the program: with -H, and an older one without.
func TestPeersRead(t *testing.T) {
	m := newDaemonMachine(t, hostConfig)
	put.File(t, filepath.Join(m.root, addressesFile), routesText, 0o600)
	down := domainText(t, "DEGRADED", "CRC", []string{"n2"}, nil)
	m.says("READY", down)
	read := func(want string) {
		t.Helper()
		facts, problems := m.local.Read(true)
		if got := peersText(facts.Peers); facts.DomainState != "DEGRADED" || got != want || problems != nil {
			t.Errorf("%s: %s, %v, want %s", facts.DomainState, got, problems, want)
		}
	}
	read("10.0.0.1=n1:self 10.0.0.2=:dead 10.0.0.3=n3:connected")
	put.File(t, filepath.Join(m.root, "etc/nvidia-imex", NamesFile), "10.0.0.2 n2\n10.0.0.1 n1\n", 0o600)
	read("10.0.0.1=n1:self 10.0.0.2=n2:dead 10.0.0.3=:connected")
	put.File(t, filepath.Join(m.root, "older"), strings.ReplaceAll(down, `"hostName"`, `"x"`), 0o600)
	m.script(`case "$*" in *-H*) exit 1 ;; *-N*) cat ` + filepath.Join(m.root, "older") + ` ;; *) echo READY;; esac`)
	read("10.0.0.1=n1:self 10.0.0.2=n2:dead 10.0.0.3=:connected")
}

func TestNames(t *testing.T) {
	address := netip.MustParseAddr
	nodes, named := FormatNodes(map[netip.Addr]string{address("10.0.0.20"): "a", address("10.0.0.3"): "b", address("fd00::1"): "c"})
	const head = "# The nodes of nodes_config.cfg and their names in Slurm, written by quoin imex nodes-config.\n"
	if string(nodes) != "10.0.0.3\n10.0.0.20\nfd00::1\n" || string(named) != head+"10.0.0.3 b\n10.0.0.20 a\nfd00::1 c\n" {
		t.Errorf("%s\n%s", nodes, named)
	}
	for text, want := range map[string]string{
		string(named):                        "map[10.0.0.3:b 10.0.0.20:a fd00::1:c]",
		"":                                   "map[]",
		"10.0.0.1 a b\n10.0.0.2\nx y\n":      "map[]",
		"10.0.0.1 N/A\n10.0.0.2 localhost\n": "map[]",
		"10.0.0.1 a\n10.0.0.1 b\n10.0.0.2 c": "map[10.0.0.2:c]",
		"10.0.0.1 a\n10.0.0.1 a\n":           "map[10.0.0.1:a]",
		"10.0.0.1 a\n10.0.0.2 a\n":           "map[]",
		"::ffff:10.0.0.1 a # b\n":            "map[10.0.0.1:a]",
	} {
		if got := fmt.Sprint(parseNames([]byte(text))); got != want {
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
		if p.Address == "" || cleanAddress(p.Address) != p.Address || p.Name != cleanName(p.Name) || p.Name != "" && names[p.Name] {
			t.Errorf("%+v", p)
		}
		names[p.Name] = true
	}
	if self > 1 || len(peers) > maxPeers || apart != (len(peers) > 0) || !slices.IsSortedFunc(peers, comparePeers) {
		t.Errorf("peers %s", peersText(peers))
	}
}

func FuzzPeers(f *testing.F) {
	down := domainText(f, "DEGRADED", "CRCC", []string{"n2"}, nil)
	f.Add(down, "10.0.0.2 n2\n", routesText, "n1")
	f.Add(domainText(f, "DEGRADED", "CCCC", nil, []string{"n2", "n3", "n4"}), "", "", "n1")
	f.Add(strings.ReplaceAll(down, `"10.0.0.`, `"gb-`), "", routesText, "gb-1")
	f.Fuzz(func(t *testing.T, text, names, routes, name string) {
		d, err := parseDomain([]byte(text))
		if err != nil {
			return
		}
		addresses := map[netip.Addr]bool{}
		parseAddresses([]byte(routes), addresses)
		parseAddresses6([]byte(routes), addresses)
		self := d.self(addresses, name)
		if _, is := d.Nodes[self]; self != "" && !is {
			t.Errorf("self %q", self)
		}
		named := parseNames([]byte(names))
		peers := d.peers(self, named)
		checkPeers(t, peers)
		if d.fine("") && len(d.peers("", named)) > 0 {
			t.Errorf("fine, and %s", peersText(peers))
		}
	})
}
