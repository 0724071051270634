package config

import (
	"bytes"
	"testing"
)

// FuzzConfig checks that what is read as a configuration prints as one that
// reads the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("agent: {interval: 5s}\npublisher:\n  listen: ''\n"))
	f.Add([]byte("publications:\n- name: a\n  settle: 0s\n  maxChange: 0\n  nodes: {selector: 'a in (b)'}\n  blockSizes: [2, 4]\n"))
	f.Add([]byte("publications: &a\n- name: b\n  tierLabels: *a\n"))
	printed := func(data []byte) ([]byte, error) {
		c, err := Parse(Default(), "q.yaml", data, nil)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = c.Write(&out)
		return out.Bytes(), err
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := printed(data)
		if err != nil {
			return
		}
		if twice, err := printed(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q prints\n%s\nwhich prints\n%s\n%v", data, once, twice, err)
		}
	})
}
