package switches

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// small is a text of each kind of line that ibnetdiscover writes, with -f and -g too.
const small = `#
# Topology file: generated on Wed Aug  6 16:11:23 2025
#
# Reported max hops discovered: 3
# Total MADs used: 99
# Initiated from node e09d730300156ff6 port e09d730300156ff6

Chassis 1 (guid 0x2c5eab0300b87b00)

# Spine Nodes
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x2c5eab0300b87b40		# Chassis 1
switchguid=0x2c5eab0300b87b40(2c5eab0300b87b40)	# ISR2012 Spine 1 Chip 1
Switch	65 "S-2c5eab0300b87b40"		# "MF0;leaf "one":MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1][ext 4]	"H-e09d730300859298"[1](e09d730300859298) 		# "n07 mlx5_0" lid 641 4xNDR s=8 w=2 v=4 e=8
[2]	"H-e09d730300859298"[2](e09d730300859299) 		# "n07 mlx5_0" lid 642 4xNDR
[3]	"S-2c5eab0300b87bc0"[1]		# "MF0;leaf-2:MQM9701/U1" lid 74 4xNDR
[65]	"H-2c5eab0300b87b50"[1](2c5eab0300b87b50) 		# "Mellanox Technologies Aggregation Node" lid 193 4xNDR

Non-Chassis Nodes

vendid=0x2c9
devid=0xd2f2
sysimgguid=0x2c5eab0300b87bc0
switchguid=0x2c5eab0300b87bc0(2c5eab0300b87bc0)
Switch	65 "S-2c5eab0300b87bc0"		# "MF0;leaf-2:MQM9701/U1" base port 0 lid 74 lmc 0
[1]	"S-2c5eab0300b87b40"[3][ext 4]		# "MF0;leaf-1:MQM9701/U1" lid 73 4xNDR

vendid=0x2c9
devid=0xcf09
sysimgguid=0x2c5eab0300b87b40
caguid=0x2c5eab0300b87b50
Ca	1 "H-2c5eab0300b87b50"		# "Mellanox Technologies Aggregation Node"
[1](2c5eab0300b87b50) 	"S-2c5eab0300b87b40"[65]		# lid 193 lmc 0 "MF0;leaf-1:MQM9701/U1" lid 73 4xNDR

vendid=0x2c9
devid=0x1021
sysimgguid=0xe09d730300859298
caguid=0xe09d730300859298
Ca	2 "H-e09d730300859298"		# "n07 mlx5_0"
[1](e09d730300859298) 	"S-2c5eab0300b87b40"[1]		# lid 641 lmc 0 "MF0;leaf-1:MQM9701/U1" lid 73 4xNDR
[2](e09d730300859299) 	"S-2c5eab0300b87b40"[2]		# lid 642 lmc 0 "MF0;leaf-1:MQM9701/U1" lid 73 4xNDR
`

func packed(t testing.TB, texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestRead(t *testing.T) {
	l := racks(2, 2, 2, 2)
	toItself := strings.Replace(small, "[3]\t\"S-", "[8]\t\"S-2c5eab0300b87b40\"[9]\n[9]\t\"S-2c5eab0300b87b40\"[8]\n[3]\t\"S-", 1)
	for _, test := range []struct {
		name, text                 string
		switches, adapters, cables int
	}{
		{"all lines", small, 2, 1, 4},
		{"Windows lines", strings.ReplaceAll(small, "\n", "\r\n"), 2, 1, 4},
		{"without the last line's end", strings.TrimSuffix(small, "\n"), 2, 1, 4},
		{"gzip", packed(t, small), 2, 1, 4},
		{"gzip in two parts", packed(t, small[:300], small[300:]), 2, 1, 4},
		{"twice", small + small, 2, 1, 4},
		{"a cable from a switch to itself", toItself, 2, 1, 4},
		{"stanzas", l.text(newRand(1)), 6, 8, 24},
		{"without tabs, as copied from a terminal", strings.ReplaceAll(small, "\t", ""), 2, 1, 4},
		{"without tabs, and an adapter that only its box shows to be a switch's", strings.NewReplacer("\t", "", "Aggregation Node", "x").Replace(small), 2, 1, 4},
		{"spaces in place of tabs", strings.ReplaceAll(small, "\t", "  "), 2, 1, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if f.Switches() != test.switches || f.Adapters() != test.adapters || len(f.cables) != test.cables {
				t.Errorf("%d switches, %d adapters, %d cables, want %d, %d, %d", f.Switches(), f.Adapters(), len(f.cables), test.switches, test.adapters, test.cables)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "no switch and no adapter"},
		{"comments alone", "#\n# Topology file\n", "no switch and no adapter"},
		{"another text", "hello\n", `no switch and no adapter: want the output of ibnetdiscover; lines that are not of ibnetdiscover: 1, the first is line 1: "hello"`},
		{"warnings alone", "ibwarn: [1] a\nibwarn: [1] b\n", `no switch and no adapter: want the output of ibnetdiscover; lines that are not of ibnetdiscover: 2, the first is line 1: "ibwarn: [1] a"`},
		{"a warning within a line", strings.Replace(small, "\"H-e09", "\"ibwarn: [4711] x\nH-e09", 1), "line 16: \"[1][ext 4]"},
		{"a device without a GUID", strings.ReplaceAll(small, "S-2c5eab0300b87bc0", "S-0000000000000000"), `want the name of a device, such as "S-2c5eab0300b87b40"`},
		{"a device whose GUID is no number", strings.ReplaceAll(small, "S-2c5eab0300b87bc0", "S-leaf-2"), `want the name of a device, such as "S-2c5eab0300b87b40"`},
		{"a device of an unknown kind", strings.ReplaceAll(small, "S-2c5eab0300b87bc0", "T-2c5eab0300b87bc0"), `want the name of a device, such as "S-2c5eab0300b87b40"`},
		{"a list", "Switch\t : 0x2c5eab0300b87b40 ports 65 devid 0xd2f2 vendid 0x2c9 \"leaf\"\n", "line 1: \"Switch\\t : 0x2c5eab0300b87b40 ports 65 devid 0xd2f2 vendid 0x…\" is of a list of devices"},
		{"a switch alone", small[:strings.Index(small, "[1][ext")], "line 15: the text ends without a cable"},
		{"a list of ports", "SW    73  2 0x2c5eab0300b87b40 4x NDR - CA   641  1 0xe09d730300859298 ( 'leaf-1' - 'n07 mlx5_0' )\n", `line 1: "SW    73  2 0x2c5eab0300b87b40 4x NDR - CA   641  1 0xe09d73…" is of a list of ports: run ibnetdiscover without -p`},
		{"both forms", small + "SW 7 64 0x2c5eab0300b87b40 4x SDR 'leaf'\n", `line 44: "SW 7 64 0x2c5eab0300b87b40 4x SDR 'leaf'" is of a list of ports`},
		{"without its beginning", small[strings.Index(small, "[2]"):], "line 1: \"[2]"},
		{"without the stanza of a leaf", small[:strings.Index(small, "Non-Chassis")] + small[strings.Index(small, "vendid=0x2c9\ndevid=0xcf09"):], `line 18: the cable from port 3 of S-2c5eab0300b87b40 to port 1 of S-2c5eab0300b87bc0 is not listed at its other end; the text ends at line 34`},
		{"another cable in the same port", small + strings.ReplaceAll(small, "[3]", "[4]") + strings.ReplaceAll(small, `bc0"[1]`, `bc0"[9]`), "line 104: port 3 of S-2c5eab0300b87b40 has another cable in line 18"},
		{"gzip that is cut", packed(t, small)[:300], "unexpected EOF"},
		{"a long line", "# " + strings.Repeat("x", maxLine) + "\n", "line 1: the line has more than 4096 bytes"},
		{"a very long line", strings.Repeat("x", 1<<20), "line 1: the line has more than 4096 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(test.text))
			if err == nil {
				t.Fatalf("read %d switches, want %q", f.Switches(), test.want)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestReadOthers: lines of other programs are counted, and the fabric is read all the same.
func TestReadOthers(t *testing.T) {
	const (
		warning = "ibwarn: [4711] mad_rpc_rmpp: recv failed\n"
		failed  = "src/query_smp.c:198; umad (DR path slid 65535; dlid 65535; 0,1,19) bad status 110; Connection timed out\n"
		prompt  = "[root@ufm ~]# exit\n"
	)
	middle := strings.Index(small, "Non-Chassis")
	for _, test := range []struct{ name, text, want string }{
		{"none", small, ""},
		{"before", warning + small, `lines that are not of ibnetdiscover: 1, the first is line 1: "ibwarn: [4711] mad_rpc_rmpp: recv failed"`},
		{"after", small + failed, `lines that are not of ibnetdiscover: 1, the first is line 44: "src/query_smp.c:198; umad (DR path slid 65535; dlid 65535; 0…"`},
		{"lines of a kernel", "[12345.678901] mlx5_core 0000:18:00.0: Port module event\n[2025-08-06T16:11:23] x\n[\n" + small, `lines that are not of ibnetdiscover: 3, the first is line 1: "[12345.678901] mlx5_core 0000:18:00.0: Port module event"`},
		{"within, and a prompt", small[:middle] + failed + warning + small[middle:] + prompt, `lines that are not of ibnetdiscover: 3, the first is line 21: "src/query_smp.c:198; umad (DR path slid 65535; dlid 65535; 0…"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, f.LeftOut()); diff != "" || len(f.cables) != 4 {
				t.Errorf("%d cables, want 4; lines left out (-want +got):\n%s", len(f.cables), diff)
			}
		})
	}
}

// TestReadTooLarge: a text that is larger than the most is refused, packed or not.
func TestReadTooLarge(t *testing.T) {
	const want = "the text is larger than 64 MiB, the most that is read"
	comment := "#" + strings.Repeat(" ", 1022) + "\n"
	for name, text := range map[string]func(t *testing.T) io.Reader{
		"plain": func(t *testing.T) io.Reader { return &forever{text: comment} },
		"gzip": func(t *testing.T) io.Reader {
			r, w := io.Pipe()
			go func() {
				z := gzip.NewWriter(w)
				_, err := io.Copy(z, &forever{text: comment})
				_ = w.CloseWithError(err)
			}()
			t.Cleanup(func() { _ = r.Close() })
			return r
		},
		"gzip of nothing, for ever": func(t *testing.T) io.Reader { return &forever{text: packed(t, "")} },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(text(t)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// forever reads a text again and again.
type forever struct {
	text string
	at   int
}

func (f *forever) Read(p []byte) (int, error) {
	n := copy(p, f.text[f.at:])
	f.at = (f.at + n) % len(f.text)
	return n, nil
}

// TestReadBounds: a text of short lines costs no more memory than one of ibnetdiscover.
func TestReadBounds(t *testing.T) {
	switches := func(yield func(string) bool) {
		for i := 1; yield(fmt.Sprintf("Switch 1 \"S-%x\" \"\"\n", i)); i++ {
		}
	}
	ends := func(yield func(string) bool) {
		for yield("Switch 1 \"S-1\" \"\"\n") && yield("[1]\"S-1\"[1]\n") {
		}
	}
	for name, lines := range map[string]iter.Seq[string]{"devices": switches, "cables": ends} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			t.Cleanup(func() { _ = r.Close() })
			go func() {
				out := bufio.NewWriter(w)
				for line := range lines {
					if _, err := out.WriteString(line); err != nil {
						return
					}
				}
			}()
			if _, err := Read(r); err == nil || !strings.Contains(err.Error(), "more than 1048576 ends of cables or 262144 devices") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestReadCut cuts a text at each byte. No part is taken for a smaller fabric.
func TestReadCut(t *testing.T) {
	l := racks(2, 2, 2, 2)
	for name, text := range map[string]string{"stanzas": l.text(newRand(5)), "small": small} {
		whole, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for at := range text {
			if f, err := Read(strings.NewReader(text[:at])); err == nil && (f.Switches() != whole.Switches() || f.Adapters() != whole.Adapters() || len(f.cables) != len(whole.cables)) {
				t.Fatalf("%s: the first %d of %d bytes are taken for %d switches, %d adapters and %d cables", name, at, len(text), f.Switches(), f.Adapters(), len(f.cables))
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	l := racks(1, 2, 2, 1)
	f.Add([]byte(small))
	f.Add([]byte(l.text(newRand(1))))
	f.Add([]byte("SW 7 64 0x2c5eab0300b87b40 4x SDR 'leaf'\n" + small))
	f.Add([]byte(packed(f, small)))
	f.Add([]byte("ibwarn: [1] x\n" + strings.ReplaceAll(small, "\t", "")))
	f.Add([]byte("Rt\t2 \"R-0000000000000001\"\t\t# \"\"\n[1](1) \"R-0000000000000001\"[1](1)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		fabric, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		byHost, nameless := readHosts([]*Fabric{fabric}, nil)
		told := 0
		for _, guids := range slices.Concat(slices.Collect(maps.Values(byHost)), slices.Collect(maps.Values(nameless))) {
			told += len(guids)
		}
		if told != fabric.Adapters() {
			t.Errorf("%d adapters have a host or none, want %d", told, fabric.Adapters())
		}
		hosts, _ := Hosts([]*Fabric{fabric}, nil)
		r := Place([]*Fabric{fabric, fabric}, hosts, nil)
		if len(r.Tiers)+len(r.Unplaced) != len(hosts) {
			t.Errorf("%d placed and %d not, of %d hosts", len(r.Tiers), len(r.Unplaced), len(hosts))
		}
		for i := range hosts {
			hosts[i].Published = r.Tiers[hosts[i].Name]
		}
		second := Place([]*Fabric{fabric}, hosts, r.Groups)
		for node, tiers := range r.Tiers {
			if strings.Join(tiers, " ") != strings.Join(second.Tiers[node], " ") {
				t.Errorf("%s: %q, and then %q", node, tiers, second.Tiers[node])
			}
		}
	})
}
