package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/machine"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/nvidiadra"
)

// Where a machine has its own nvidia-imex.service: what an agent and the stand-in of the service read.
const (
	serviceDir   = nvidiadra.HostRoot + "/etc/nvidia-imex"
	serviceGroup = "/sys/fs/cgroup/system.slice/nvidia-imex.service"
	servicePID   = "/run/nvidia-imex.pid"
)

// hosts lets the machines of a rack run their own nvidia-imex.service. The service of one machine is down. Worker pods
// have names and addresses of their own, so that nodes_names.cfg alone says which node of the job is down.
func hosts(w *world) {
	racks := w.rackPods()
	rack := slices.IndexFunc(racks[:], func(pods []string) bool { return len(pods) == rackNodes }) // with a worker pod on each machine
	own, down, on := racks[rack][0], racks[rack][1], w.workers()
	machines := w.box.Machines[rack*rackNodes:][:rackNodes]
	dir := filepath.Join(w.t.TempDir(), "nvidia-imex")
	var addresses []string
	for _, m := range machines {
		addresses = append(addresses, w.address(m.Name))
	}
	files := map[string]string{"nodes_config.cfg": "", "nodes_names.cfg": ""}
	// The plan follows replaced worker pods within a minute.
	await.Until(w.t, "nodes-config names all nodes of the rack", func() bool {
		if _, err := w.runQuoin("imex", "nodes-config", "--clique", clique(rack+1), "--dir", dir); err != nil {
			w.t.Fatal(err)
		}
		for name := range files {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				w.t.Fatal(err)
			}
			files[name] = string(text)
		}
		return !slices.ContainsFunc(addresses, func(a string) bool { return !slices.Contains(strings.Fields(files["nodes_config.cfg"]), a) })
	}, func() string { return files["nodes_config.cfg"] })
	files["domain.json"] = domainWithout(w.address(on[down]), strings.Fields(files["nodes_config.cfg"]))
	for _, m := range machines {
		w.startService(m, files, m.Name != on[down])
	}
	condition := func(name string) []string {
		return []string{"get", "node", name, `-o=jsonpath={range .status.conditions[?(@.type=="QuoinImexNotReady")]}{.reason} {.message}{end}`}
	}
	w.until("the node of "+own+" names "+down, func(out string) bool {
		return strings.HasPrefix(out, "Ready ") && strings.Contains(out, "it has no connection to "+down+" ("+w.address(on[down])+")")
	}, condition(on[own])...)
	id := w.submit("-w", own+","+down)
	w.counted(w.prometheus(), `sum(quoin_hook_gate_total{result="warn"})`, 1) // by the name: a node that is not found is unknown
	w.finish(id)
	for _, m := range machines {
		w.run(m, "[ ! -e "+servicePID+" ] || kill $(cat "+servicePID+"); rm -rf "+servicePID+" "+filepath.Dir(serviceGroup)+" "+serviceDir)
	}
	w.until("nothing serves the node of "+own, func(out string) bool { return strings.HasPrefix(out, "NoDriver ") }, condition(on[own])...)
}

// address is that of a node, which its machine has.
func (w *world) address(node string) string {
	w.t.Helper()
	return w.kubectl("get", "node", node, `-o=jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
}

// run runs lines of shell on a machine.
func (w *world) run(m *machine.Machine, lines string) {
	w.t.Helper()
	if _, err := m.Run(w.t.Context(), "sh", "-c", lines); err != nil {
		w.t.Fatal(err)
	}
}

// startService gives a machine the files of nvidia-imex.service, and runs the stand-in of the service if it is to run. No
// machine of the box has a systemd: its control group is made by hand.
func (w *world) startService(m *machine.Machine, files map[string]string, runs bool) {
	w.t.Helper()
	files["config.cfg"] = "IMEX_NODE_CONFIG_FILE=" + serviceDir + "/nodes_config.cfg\nIMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=" + w.address(m.Name) + "\nIMEX_CMD_PORT=50005\n"
	for name, text := range files {
		if err := m.WriteFile(filepath.Join(serviceDir, name), text); err != nil {
			w.t.Fatal(err)
		}
	}
	if !runs {
		w.run(m, "mkdir -p "+filepath.Dir(serviceGroup))
		return
	}
	lines := "cp " + images.DriverFolder + images.IMEXCtl + " /run/nvidia-imex && echo $$ >" + servicePID + " && exec /run/nvidia-imex -c " + serviceDir + "/config.cfg"
	if err := m.Daemon(w.t.Context(), "nvidia-imex", "sh", "-c", lines); err != nil {
		w.t.Fatal(err)
	}
	w.run(m, "mkdir -p "+serviceGroup+" && echo populated 1 >"+serviceGroup+"/cgroup.events")
}

// domainWithout is what nvidia-imex-ctl -N -j prints of nodes by their addresses, one of which gives no answer.
func domainWithout(down string, addresses []string) string {
	nodes := map[string]any{}
	for i, address := range addresses {
		status, connections := "READY", map[string]any{}
		if address == down {
			status = "UNAVAILABLE"
		}
		for k, other := range addresses {
			connection := "CONNECTED"
			switch {
			case address == down:
				connection = "INVALID"
			case other == down:
				connection = "RECOVERING"
			}
			connections[strconv.Itoa(k)] = map[string]any{"host": other, "status": connection, "changed": address != down}
		}
		nodes[strconv.Itoa(i)] = map[string]any{"status": status, "host": address, "connections": connections}
	}
	text, err := json.Marshal(map[string]any{"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": "DEGRADED"})
	if err != nil {
		return fmt.Sprint(err) // a map of strings has none
	}
	return string(text)
}
