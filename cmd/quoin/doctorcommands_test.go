package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestDoctorCommands holds that quoin takes the words of each of its own commands that doctor advises.
func TestDoctorCommands(t *testing.T) {
	text, err := os.ReadFile("doctor/testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		var words []string
		if !strings.HasPrefix(line, `["quoin",`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &words); err != nil {
			t.Fatal(err)
		}
		count++
		cmd, args, err := newRootCommand().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd.RunE == nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
	if count < 4 {
		t.Errorf("%d commands of quoin, want 4 or more", count)
	}
}
