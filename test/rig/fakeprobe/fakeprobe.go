// Package fakeprobe plays the agent's child in tests: a probe that reports,
// hangs, crashes, lies, and leaves processes behind.
package fakeprobe

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Report is the report that a good probe prints.
const Report = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1",` +
	`"gpus":[{"index":0,"uuid":"GPU-a","minor":0,"fabric":{"cliqueID":0,"state":"inProgress"}}],"problems":[{"reason":"FabricSlow","message":"fabric of GPU GPU-a"}]}`

// Joined is a report whose NVLink domain one more reading confirms.
const Joined = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1","bootID":"b",` +
	`"gpus":[{"index":0,"uuid":"GPU-a","minor":0,"fabric":{"clusterUUID":"8a61c302-0000-4000-8000-000000000001","cliqueID":1,"state":"completed"}}]}`

// Variable is the environment variable that makes a test's program a fake probe.
const Variable = "FAKE_PROBE"

// sleepVariable says for how long an orphan sleeps.
const sleepVariable = "SOAK_SLEEP"

// Played plays the probe that the environment asks for, and reports whether it
// asks for one. A TestMain calls it first.
func Played() bool {
	script := os.Getenv(Variable)
	if script == "soak" {
		script = soakScript()
	}
	if script != "" {
		play(script)
	}
	return script != ""
}

// longLine is longer than any line that the agent reads whole.
var longLine = strings.Repeat("x", 3<<20)

// lines are what the words of a script print.
var lines = map[string]string{
	"report":   Report,
	"joined":   Joined,
	"empty":    "",
	"garbage":  "\x00\xff not a report\n" + `{"apiVersion":"quoin.dev/v9","kind":"NodeReport","node":"n1"}` + "\n" + longLine,
	"junk":     "not a report",
	"ids":      `{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities","gpus":[{"uuid":"GPU-a","id":1}]}`,
	"banner":   "libdcgm: a word that was not asked for",
	"stranger": strings.Replace(Report, "n1", "n2", 1),
}

// actions are what the other words do.
var actions = map[string]func(){
	"orphan": orphan,
	"half":   func() { fmt.Print(Report[:100]) },
	"flood": func() {
		for range 10_000 {
			fmt.Println("not a report")
		}
		hang()
	},
	"huge": func() {
		for {
			if _, err := fmt.Print(longLine); err != nil {
				return
			}
		}
	},
	"100MB": func() {
		for range 34 {
			fmt.Print(longLine)
		}
		fmt.Println()
	},
	"sampler":     sampler,
	"samples":     samples,
	"bad-samples": badSamples,
	"hang":        hang,
	"127": func() {
		fmt.Fprintln(os.Stderr, "undefined symbol: nvmlDeviceGetGpuFabricInfoV")
		os.Exit(127)
	},
	"crash": func() { panic("crash") },
}

func play(script string) {
	for word := range strings.SplitSeq(script, " ") {
		if line, is := lines[word]; is {
			fmt.Println(line)
		} else if action := actions[word]; action != nil {
			action()
		}
	}
}

// hang sleeps: Go ends a program whose goroutines all wait for each other.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

// sampler prints a sample of what it is told to sample, with the id of its process
// for the power.
func sampler() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var devices []string
		if words := strings.Fields(in.Text()); len(words) == 3 {
			for uuid := range strings.SplitSeq(words[2], ",") {
				devices = append(devices, fmt.Sprintf(`{"uuid":%q,"power":%d}`, uuid, os.Getpid()))
			}
		}
		fmt.Printf(`{"kind":"Sample","devices":[%s]}`+"\n", strings.Join(devices, ","))
	}
}

// samples prints samples and never a reading.
func samples() {
	for {
		fmt.Println(`{"kind":"Sample","devices":[{"uuid":"GPU-a"}]}`)
		time.Sleep(20 * time.Millisecond)
	}
}

// badSamples prints as many as end a probe, with good ones between.
func badSamples() {
	for range 100 {
		fmt.Println(`{"kind":"Sample","devices":[{"uuid":"nonsense"}]}`)
		fmt.Println(`{"kind":"Sample","devices":[]}`)
	}
	hang()
}

// soakScripts are what the probes of a soak do.
var soakScripts = strings.Split("report;report;report report;report crash;report 127;127;crash;garbage;report garbage half;half;stranger;"+
	"report flood;flood;empty;report empty hang;report hang;report orphan;report orphan hang", ";")

// soakScript is what one probe of a soak does, rarely what takes seconds.
func soakScript() string {
	switch rand.N(600) {
	case 0:
		return "hang"
	case 3:
		return "orphan"
	case 1:
		return "100MB report"
	case 2:
		return "huge"
	}
	return soakScripts[rand.N(len(soakScripts))]
}

// SleepOf makes the orphans of a soak sleep for a time by which a test finds them.
func SleepOf(set func(key, value string)) (seconds string) {
	seconds = fmt.Sprintf("86399.%d", os.Getpid())
	set(sleepVariable, seconds)
	return seconds
}

// orphan starts a process that outlives its parent and holds its pipes.
func orphan() {
	cmd := exec.Command("sleep", os.Getenv(sleepVariable))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
