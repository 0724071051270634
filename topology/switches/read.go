package switches

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MaxText is the largest text that is read, in bytes, unpacked or not: 64 MiB, about 12,000
// nodes with eight adapters.
const MaxText = 64 << 20

// maxLine is the longest line. The longest that ibnetdiscover writes has about 300 bytes.
const maxLine = 4096

// maxEnds and maxDevices bound what a text of short lines costs. A text of ibnetdiscover reaches
// MaxText first.
const (
	maxEnds    = 1 << 20
	maxDevices = 1 << 18
)

// Read reads the output of ibnetdiscover, with or without -f and -g, plain or by gzip. An error names
// the line. The whole text is refused if a cable is listed at one of its ends only, because
// ibnetdiscover lists both: the text was cut. A list of ports (-p) is refused too. Lines of other
// programs, such as warnings of ibnetdiscover's library, are left out: see [Fabric.LeftOut].
func Read(r io.Reader) (*Fabric, error) {
	in := bufio.NewReaderSize(&bounded{r: r, left: MaxText}, 64<<10)
	text := in
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		text = bufio.NewReaderSize(&bounded{r: unpacked, left: MaxText}, 64<<10)
	}
	p := parser{names: map[deviceKey]int32{}, at: none}
	for {
		line, err := text.ReadSlice('\n')
		if len(line) > 0 {
			p.line++
			if len(line) > maxLine || errors.Is(err, bufio.ErrBufferFull) {
				return nil, p.errorf("the line has more than %d bytes: want the output of ibnetdiscover", maxLine)
			}
			if err := p.take(line); err != nil {
				return nil, err
			}
			if len(p.halves) > maxEnds || len(p.devices) > maxDevices {
				return nil, p.errorf("more than %d ends of cables or %d devices, the most that are read", maxEnds, maxDevices)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return p.fabric()
		case err != nil:
			return nil, fmt.Errorf("read after line %d: %w", p.line, err)
		}
	}
}

// bounded reads at most left bytes. More is an error.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the text is larger than %d MiB, the most that is read", MaxText>>20)
	}
	return n, err
}

// none is no device.
const none = -1

// deviceKey is what a text calls a device.
type deviceKey struct {
	kind kind
	guid uint64
}

// half is one end of a cable, as the text lists it: a port of a device and the port at the other end.
type half struct {
	from, to         int32
	port, toPort     int16
	portGUID, toGUID uint64
	line             int32
}

// parser holds what was read of a text.
type parser struct {
	line    int32
	devices []device
	names   map[deviceKey]int32
	halves  []half
	at      int32 // the device whose stanza is read
	// image is from the lines that stand before a device's own.
	image      uint64
	others     int    // lines that are not of ibnetdiscover
	firstOther string // the first of them, with its place
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.line}, args...)...)
}

// take reads one line.
func (p *parser) take(line []byte) error {
	s := bytes.TrimSpace(line)
	switch {
	case len(s) == 0, s[0] == '#':
		return nil
	case beginsWithPort(s):
		return p.takePort(string(s))
	}
	word := s
	if end := bytes.IndexAny(s, " \t="); end >= 0 {
		word = s[:end]
	}
	switch string(bytes.TrimRight(word, "0123456789")) { // a text copied from a terminal may have lost the tab before the number
	case "vendid":
		p.at, p.image = none, 0
		return nil
	case "devid", "switchguid", "caguid", "rtguid", "Hostname:", "Chassis", "Non-Chassis":
		return nil
	case "sysimgguid":
		_, value, _ := strings.Cut(string(s), "=")
		value, _, _ = strings.Cut(value, "#")
		p.image, _ = parseGUID(strings.TrimSpace(value))
		return nil
	case "Switch", "Ca", "Rt":
		return p.takeDevice(string(s))
	case "SW", "CA", "RT":
		return p.errorf("%q is of a list of ports: run ibnetdiscover without -p", shorten(string(s)))
	}
	if p.others++; p.others == 1 {
		p.firstOther = fmt.Sprintf("line %d: %q", p.line, shorten(string(s)))
	}
	return nil
}

// beginsWithPort reports whether a line begins with the number of a port, such as [2]. A time is none.
func beginsWithPort(s []byte) bool {
	digits := 0
	for s[0] == '[' && 1+digits < len(s) && s[1+digits] >= '0' && s[1+digits] <= '9' {
		digits++
	}
	return digits > 0 && 1+digits < len(s) && s[1+digits] == ']'
}

// leftOut says which lines are not of ibnetdiscover. It is empty if there are none.
func (p *parser) leftOut() string {
	if p.others == 0 {
		return ""
	}
	return fmt.Sprintf("lines that are not of ibnetdiscover: %d, the first is %s", p.others, p.firstOther)
}

// shorten returns the beginning of a text, for a message.
func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// takeDevice reads the line that begins a device's cables, such as
//
//	Switch	65 "S-2c5eab0300b87b40"		# "leaf-1" enhanced port 0 lid 73 lmc 0
//	Ca	1 "H-e09d730300859298"		# "n07 mlx5_0"
func (p *parser) takeDevice(s string) error {
	fields := strings.Fields(s)
	if len(fields) > 1 && fields[1] == ":" {
		return p.errorf("%q is of a list of devices (ibnetdiscover -l, -S, -H or -R): want the output without these, because it has the cables", shorten(s))
	}
	if len(fields) < 3 {
		return p.errorf("%q ends early", shorten(s))
	}
	key, rest, err := parseName(s[strings.IndexByte(s, '"')+1:])
	if err != nil || !strings.Contains(s, `"`) {
		return p.errorf("%q: want the number of ports and a name such as %q", shorten(s), `"S-2c5eab0300b87b40"`)
	}
	p.at = p.device(key)
	d := &p.devices[p.at]
	d.image = p.image
	if first, last := strings.IndexByte(rest, '"'), strings.LastIndexByte(rest, '"'); first >= 0 && last > first {
		d.text = strings.Clone(rest[first+1 : last])
	} else {
		return p.errorf("%q ends before the description", shorten(s))
	}
	return nil
}

// device returns the index of a device, and adds the device if the text has not named it yet.
func (p *parser) device(key deviceKey) int32 {
	at, ok := p.names[key]
	if !ok {
		at = int32(len(p.devices))
		p.names[key] = at
		p.devices = append(p.devices, device{kind: key.kind, guid: key.guid})
	}
	return at
}

// takePort reads one end of a cable, such as
//
//	[2]	"H-e09d730300859298"[1](e09d730300859298) 		# "n07 mlx5_0" lid 641 4xNDR
//	[1](e09d730300859298) 	"S-2c5eab0300b87b40"[2]		# lid 641 lmc 0 "leaf-1" lid 73 4xNDR
func (p *parser) takePort(s string) error {
	if p.at == none {
		return p.errorf("%q stands below no Switch, Ca or Rt: the beginning of the text is missing", shorten(s))
	}
	h := half{from: p.at, line: p.line}
	var err error
	rest := s
	if h.port, h.portGUID, rest, err = parsePort(rest); err != nil {
		return p.errorf("%q: %w", shorten(s), err)
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(rest, " \t"), `"`)
	if !ok {
		return p.errorf("%q ends before the device at the other end", shorten(s))
	}
	key, rest, err := parseName(rest)
	if err == nil {
		h.toPort, h.toGUID, _, err = parsePort(rest)
	}
	if err != nil {
		return p.errorf("%q: %w", shorten(s), err)
	}
	h.to = p.device(key)
	p.halves = append(p.halves, h)
	return nil
}

// parsePort reads "[2]" or "[2](e09d730300859298)", and what -g puts between them: "[ext 3]".
func parsePort(s string) (port int16, guid uint64, rest string, err error) {
	number, rest, ok := strings.Cut(s, "]")
	n, numberErr := strconv.ParseUint(strings.TrimPrefix(number, "["), 10, 15)
	if !ok || number == "" || number[0] != '[' || numberErr != nil {
		return 0, 0, "", errors.New("want the number of a port, such as [2]")
	}
	if strings.HasPrefix(rest, "[ext ") {
		_, rest, _ = strings.Cut(rest, "]")
	}
	inner := strings.TrimLeft(rest, " ")
	if strings.HasPrefix(inner, "(") {
		text, after, ok := strings.Cut(inner[1:], ")")
		if guid, err = parseGUID(text); err != nil || !ok {
			return 0, 0, "", errors.New("want the GUID of a port, such as (e09d730300859298)")
		}
		rest = after
	}
	return int16(n), guid, rest, nil
}

// parseName reads a device's name up to its quote: S-2c5eab0300b87b40".
func parseName(s string) (deviceKey, string, error) {
	name, rest, ok := strings.Cut(s, `"`)
	if !ok || len(name) < 3 || name[1] != '-' {
		return deviceKey{}, "", errors.New(`want the name of a device, such as "S-2c5eab0300b87b40"`)
	}
	guid, err := parseGUID(name[2:])
	k := kind(name[0])
	if err != nil || guid == 0 || k != switchKind && k != adapterKind && k != routerKind {
		return deviceKey{}, "", errors.New(`want the name of a device, such as "S-2c5eab0300b87b40"`)
	}
	return deviceKey{k, guid}, rest, nil
}

// parseGUID reads up to 16 hexadecimal digits, with or without 0x.
func parseGUID(s string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
}

// fabric returns what was read, if each cable is listed at both ends.
func (p *parser) fabric() (*Fabric, error) {
	if len(p.devices) == 0 {
		return nil, errors.New("no switch and no adapter: want the output of ibnetdiscover; " + cmp.Or(p.leftOut(), "the text has no line but comments"))
	}
	if len(p.halves) == 0 {
		return nil, p.errorf("the text ends without a cable: it is cut; want the whole output of ibnetdiscover")
	}
	p.names = nil
	slices.SortFunc(p.halves, func(a, b half) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.port, b.port), cmp.Compare(a.line, b.line))
	})
	f := &Fabric{devices: p.devices, leftOut: p.leftOut()}
	for i, h := range p.halves {
		if i > 0 && p.halves[i-1].from == h.from && p.halves[i-1].port == h.port {
			if last := p.halves[i-1]; last.to != h.to || last.toPort != h.toPort {
				p.line = h.line
				return nil, p.errorf("port %d of %s has another cable in line %d: want one run of ibnetdiscover in a file", h.port, p.call(h.from), last.line)
			}
			continue // the same text twice
		}
		at, ok := slices.BinarySearchFunc(p.halves, h, func(e, h half) int {
			return cmp.Or(cmp.Compare(e.from, h.to), cmp.Compare(e.port, h.toPort))
		})
		if !ok || p.halves[at].to != h.from || p.halves[at].toPort != h.port {
			ends := p.line
			p.line = h.line
			return nil, p.errorf("the cable from port %d of %s to port %d of %s is not listed at its other end; the text ends at line %d: it is cut, or was changed; want the whole output of ibnetdiscover",
				h.port, p.call(h.from), h.toPort, p.call(h.to), ends)
		}
		if h.from < h.to { // a cable from a device to itself joins nothing
			other := p.halves[at]
			f.cables = append(f.cables, cable{[2]int32{h.from, h.to}, [2]int16{h.port, h.toPort},
				[2]uint64{cmp.Or(h.portGUID, other.toGUID), cmp.Or(h.toGUID, other.portGUID)}})
		}
	}
	f.markBoxes()
	return f, nil
}

// call returns a device's name in a text.
func (p *parser) call(at int32) string {
	return fmt.Sprintf("%c-%016x", p.devices[at].kind, p.devices[at].guid)
}
