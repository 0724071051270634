package manifests_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
)

// driverAPI is there when NVIDIA's DRA driver is.
const driverAPI = "resource.nvidia.com/v1beta1"

// presets returns the values files that come with the chart.
func presets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("chart/presets/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("presets %v: %v", files, err)
	}
	return files
}

// TestValues holds which values the chart takes.
func TestValues(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		refused string
	}{
		{"a value that nobody knows", []string{"--set", "agnet.hostPID=true"}, "agnet"},
		{"a word for a number", []string{"--set", "publisher.replicas=two"}, "replicas"},
		{"an unknown key of the configuration", []string{"--set", "config.imex.jion=none"}, "jion"},
		{"an unknown kind of joining", []string{"--set", "config.imex.join=sometimes"}, "join"},
		{"a release as a number", []string{"--set", "config.publicationDefaults.slurmVersion=26"}, "slurmVersion"},
		{"another namespace of the nodes", []string{"--set", "nodeNamespace=gpu-nodes"}, ""},
		{"who may read metrics, in plain text", []string{"--set", "metrics.authorize=true"}, "metrics.authorize needs metrics.tlsSecret"},
		{"a digest", []string{"--set", "image.digest=sha256:" + strings.Repeat("0a", 32)}, ""},
		{"metrics with tokens, and no token for Prometheus", []string{"--set", "podMonitor.enabled=true,metrics.authorize=true,metrics.tlsSecret=certs"}, "podMonitor needs podMonitor.authorization"},
		{"an interval without a unit", []string{"--set", "podMonitor.interval=30"}, "interval"},
		{"two publications", []string{"--set", "config.publications.a.slurmVersion=25\\.11,config.publications.b.namespace=slurm-b,config.publications.b.slurmNames=slinky"}, ""},
		{"publications as a list", []string{"--set", "config.publications[0].namespace=slurm"}, "publications"},
		{"a name in a publication", []string{"--set", "config.publications.a.name=b"}, "name"},
		{"an image without a registry", []string{"--set", "image.repository=quoin"}, `image.repository: "quoin" names no registry`},
		{"the page's registry", []string{"--set", "image.repository=REGISTRY/quoin"}, `image.repository: "REGISTRY/quoin" names no registry`},
		{"a user of Docker Hub, which is not named", []string{"--set", "image.repository=somebody/quoin"}, "names no registry"},
		{"Docker Hub", []string{"--set", "image.repository=docker.io/somebody/quoin"}, ""},
		{"a registry with a port", []string{"--set", "image.repository=registry:5000/quoin"}, ""},
		{"a registry on this machine", []string{"--set", "image.repository=localhost/quoin"}, ""},
		{"an image that the nodes have", []string{"--set", "image.repository=quoin,image.pullPolicy=Never"}, ""},
		{"a tag in the image's name", []string{"--set", "image.repository=registry.example/quoin:1"}, "/image/repository"},
		{"a bad tag", []string{"--set", "image.tag=a b"}, "/image/tag"},
		{"a short digest", []string{"--set", "image.digest=sha256:0a"}, "/image/digest"},
		{"Slinky without names", []string{"--set", "neighbours.slinky=true"}, `publication "default": neighbours.slinky is on, and nothing says how Slurm calls the nodes`},
		{"Slinky with names of all", []string{"--set", "neighbours.slinky=true,config.publicationDefaults.slurmNames=short"}, ""},
		{"Slinky with names of one", []string{"--set", "neighbours.slinky=true,config.publications.a.slurmNames=slinky"}, ""},
		{"Slinky with the nodes of all", []string{"--set", "neighbours.slinky=true,config.publicationDefaults.nodes.slinky=main"}, ""},
		{"Slinky with the nodes of one", []string{"--set", "neighbours.slinky=true,config.publications.a.nodes.slinky=main"}, ""},
		{"Slinky with nodes by label alone", []string{"--set", "neighbours.slinky=true,config.publicationDefaults.nodes.selector=a"}, "neighbours.slinky is on"},
		{"Slinky without names of the second one", []string{"--set", "neighbours.slinky=true,config.publications.a.slurmNames=slinky,config.publications.b.namespace=s"}, `publication "b": neighbours.slinky is on`},
		{"Slinky with names that one publication empties", []string{"-f", "chart/presets/slinky.yaml", "--set", "config.publications.a.slurmNames="}, `publication "a": neighbours.slinky is on`},
		{"topology.yaml for an old Slurm", []string{"-f", "chart/presets/slinky.yaml", "--set", "config.publicationDefaults.format=yaml,config.publications.a.slurmVersion=24\\.11"}, `publication "a": format: "yaml": want conf with Slurm 24.11`},
		{"an old Slurm", []string{"--set", "config.publicationDefaults.slurmVersion=24\\.11"}, ""},
		{"a size below zero", []string{"--set", "config.publicationDefaults.baseBlockSize=-1"}, "/config/publicationDefaults/baseBlockSize"},
		{"a size below zero of one", []string{"--set", "config.publications.a.baseBlockSize=-1"}, "/config/publications/a/baseBlockSize"},
		{"a bad namespace", []string{"--set", "config.publicationDefaults.namespace=Slurm"}, "/config/publicationDefaults/namespace"},
		{"a bad namespace of nodes", []string{"--set", "nodeNamespace=Quoin_Node"}, "/nodeNamespace"},
		{"no namespace of nodes", []string{"--set", "nodeNamespace="}, "/nodeNamespace"},
		{"a bad namespace of pods", []string{"--set", "config.publicationDefaults.slurmNames=slinky:Slurm/main"}, "/config/publicationDefaults/slurmNames"},
		{"a bad name of a publication", []string{"--set", "config.publications.HGX.annotate=false"}, "HGX"},
		{"a bad name of a Secret", []string{"--set", "metrics.tlsSecret=Certs"}, "/metrics/tlsSecret"},
		{"an unknown word for the gate", []string{"--set", "config.agent.hookGate=held"}, "/config/agent/hookGate"},
		{"a gate without scontrol", []string{"--set", "config.agent.hookGate=hold"}, "want hookScontrol too"},
		{"a gate with scontrol", []string{"--set", "config.agent.hookGate=hold,config.agent.hookScontrol=/usr/bin/scontrol"}, ""},
		{"a share above 1", []string{"--set", "config.publicationDefaults.maxChange=20"}, "/config/publicationDefaults/maxChange"},
		{"a share above 1 of one", []string{"--set", "config.publications.a.maxChange=20"}, "/config/publications/a/maxChange"},
		{"a share", []string{"--set-json", "config.publicationDefaults.maxChange=0.5"}, ""},
		{"a bad name of objects", []string{"--set", "fullnameOverride=GPU_map"}, "/fullnameOverride"},
		{"no account", []string{"--set", "agent.serviceAccount.create=false"}, "agent.serviceAccount.create is false: want its name"},
		{"an account of the site", []string{"--set", "publisher.serviceAccount.create=false,publisher.serviceAccount.name=map"}, ""},
	}
	for _, preset := range presets(t) {
		tests = append(tests, struct {
			name    string
			args    []string
			refused string
		}{filepath.Base(preset), []string{"-f", preset}, ""})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := kuberig.Helm(t, append([]string{"template", "quoin", "chart", "--namespace", "quoin-system", "--set", kuberig.Image}, tt.args...)...)
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("%v\n%s", err, out)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("error %v, want one that names %s\n%s", err, tt.refused, out)
			}
		})
	}
}

// TestNames holds what the chart makes of names that a site chooses.
func TestNames(t *testing.T) {
	tests := []struct {
		name  string
		set   string
		want  []string
		avoid []string
	}{
		{"namespaces", "nodeNamespace=nodes", []string{"name: nodes\n", "namespace: nodes\n"}, []string{"quoin-node"}},
		{"publications with defaults", "config.publicationDefaults.annotate=true,config.publications.hgx.annotate=false,config.publications.nvl.namespace=s1,config.publications.default.slurmNames=slinky",
			[]string{"  - quoin-plan-default\n  - quoin-plan-hgx\n  - quoin-plan-nvl\n", "name: quoin-publication-hgx\n  namespace: slurm\n", "name: quoin-publication-nvl\n  namespace: s1\n",
				"resourceNames: [quoin-slurm]", "resourceNames: [quoin-slurm-hgx]", "resourceNames: [quoin-slurm-nvl]", "name: quoin-workers-default\n  namespace: slurm\n",
				"    publicationDefaults:\n      annotate: true\n", "      hgx:\n        annotate: false\n"}, []string{"quoin-workers-hgx"}},
		{"a publication", "config.publicationDefaults.namespace=s1,config.publications.train.configMap=files",
			[]string{"- quoin-plan-train\n", "name: quoin-publication-train\n", "resourceNames: [files]", "namespace: s1\n"}, []string{"quoin-workers", "namespace: slurm\n"}},
		{"pods of its own namespace", "config.publicationDefaults.namespace=s1,config.publicationDefaults.slurmNames=slinky", []string{"name: quoin-workers-default\n  namespace: s1\n"}, nil},
		{"pods of a selector", "config.publicationDefaults.namespace=s1,config.publicationDefaults.slurmNames=pod:a/b=c,config.publications.hgx.slurmNames=full,config.publications.nvl.annotate=false",
			[]string{"name: quoin-publication-nvl\n  namespace: s1\n", "# The pods that name the nodes of Slurm. RBAC knows no label selectors.\n"}, []string{"quoin-workers"}},
		{"no pods", "config.publicationDefaults.slurmNames=full,config.imex.join=none", nil, []string{"resources: [pods]"}},
		{"a privileged agent", "agent.privileged=true", []string{"          privileged: true\n"}, nil},
		{"pods of a controller", "config.publicationDefaults.namespace=s1,config.publicationDefaults.slurmNames=slinky:main", []string{"name: quoin-workers-default\n  namespace: s1\n"}, nil},
		{"pods of another namespace", "config.publicationDefaults.nodes.slinky=s2/main", []string{"name: quoin-workers-default\n  namespace: s2\n"}, nil},
		{"false and empty of a publication", "config.publicationDefaults.annotate=true,config.publicationDefaults.slurmNames=slinky,config.publicationDefaults.namespace=s1,config.publications.hgx.annotate=false,config.publications.hgx.slurmNames=,config.publications.hgx.namespace=,config.publisher.nodeConditions=false",
			[]string{"verbs: [get, list, watch]\n", "name: quoin-publication-hgx\n  namespace: slurm\n"}, []string{"verbs: [get, list, watch, patch]\n- apiGroups: [\"\"]\n  resources: [nodes", "quoin-workers"}},
		{"no Node is annotated", "config.publicationDefaults.annotate=false,config.publisher.nodeConditions=false", []string{"verbs: [get, list, watch]\n"}, []string{"nodes/status]\n  verbs", "verbs: [get, list, watch, patch]\n- apiGroups: [\"\"]\n  resources: [nodes"}},
		{"no Node is annotated, and labels are taken back", "config.publicationDefaults.annotate=false,config.publicationDefaults.labels=false,config.publisher.nodeConditions=false", []string{"resources: [nodes]\n  verbs: [get, list, watch, patch]\n"}, nil},
		{"nobody joins", "config.imex.join=none", nil, []string{"quoin-imex", "quoin-publisher-imex", "/etc/nvidia-imex", "compute-domain.nvidia.com"}},
		{"worker pods join", "config.imex.join=slurmd,config.imex.namespace=slurm", []string{"name: quoin-publisher-imex\n  namespace: slurm\n"}, []string{"name: quoin-imex\n"}},
		{"no mapping", "config.agent.mappingDir=none", nil, []string{"name: job-mapping"}},
		{"channels of the host", "config.imex.hostChannels=true", []string{"hostPath: {path: /dev/nvidia-caps-imex-channels, type: Directory}"}, nil},
		{"the host's /dev is not touched", "image.tag=v1", nil, []string{"path: /dev"}},
		{"holders", "image.tag=v1", []string{"kind: DaemonSet\nmetadata:\n  name: quoin-imex\n"}, nil},
		{"other ports", `config.agent.listen=127.0.0.1:1234,config.agent.healthListen=:1235,config.publisher.listen=:1236`, []string{"{name: metrics, containerPort: 1234}", "{name: health, containerPort: 1235}",
			"{name: metrics, containerPort: 1236}", "{name: health, containerPort: 9837}", "listen: 127.0.0.1:1234\n"}, []string{"9835", "9836"}},
		{"no metrics", "config.agent.listen=", []string{"{name: metrics, containerPort: 9836}", `listen: ""`}, []string{"9835"}},
		{"metrics by TLS", "metrics.tlsSecret=certs,metrics.authorize=true", []string{"secret: {secretName: certs}", "tlsCert: /etc/quoin-tls/tls.crt\n", "metricsAuthorize: true\n", "resources: [tokenreviews]"}, nil},
		{"metrics for all", "image.tag=v1", []string{"{port: health}"}, []string{"tokenreviews", "quoin-tls"}},
		{"accounts", "agent.serviceAccount.create=false,agent.serviceAccount.name=gpu,publisher.serviceAccount.annotations.a=b",
			[]string{"serviceAccountName: gpu\n", "- kind: ServiceAccount\n  name: gpu\n", "  annotations: {\"a\":\"b\"}\n"}, []string{"serviceAccountName: quoin-agent"}},
		{"pods", "agent.podLabels.a=b,agent.podLabels.app\\.kubernetes\\.io/component=x,agent.podAnnotations.c=d,publisher.podLabels.e=f,publisher.podAnnotations.g=h",
			[]string{`      labels: {"a":"b","app.kubernetes.io/component":"agent","app.kubernetes.io/name":"quoin"}` + "\n", "        c: d\n", `,"e":"f"}` + "\n", "        g: h\n"}, nil},
		{"variables", "agent.extraEnv[0].name=A,agent.extraEnv[0].value=b,publisher.extraEnv[0].name=C,publisher.extraEnv[0].value=d", []string{"        - name: A\n          value: b\n", "        - name: C\n          value: d\n"}, nil},
		{"rollouts", "agent.updateStrategy.rollingUpdate.maxUnavailable=1,publisher.updateStrategy.type=Recreate", []string{"  updateStrategy:\n    rollingUpdate:\n      maxUnavailable: 1\n", "  strategy:\n    type: Recreate\n"}, nil},
		{"security", "agent.securityContext.seLinuxOptions.type=my_t,publisher.securityContext.runAsGroup=7", []string{"          seLinuxOptions:\n            type: my_t\n", "          runAsGroup: 7\n"}, []string{"spc_t"}},
		{"nothing of the site", "agent.securityContext=null,publisher.securityContext=null,agent.podLabels=null,publisher.podLabels=null", []string{"          runAsUser: 0\n"}, []string{"spc_t"}},
		{"security of a privileged agent", "agent.privileged=true", []string{"          privileged: true\n          readOnlyRootFilesystem: true\n          runAsUser: 0\n          seLinuxOptions:\n            type: spc_t\n"}, nil},
		{"secrets for the registry", "imagePullSecrets[0]=pull", []string{"imagePullSecrets:\n      - name: pull\n"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := kuberig.Helm(t, "template", "quoin", "chart", "--namespace", "quoin-system", "--api-versions", driverAPI, "--set", kuberig.Image+","+tt.set)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q", want)
				}
			}
			for _, avoid := range tt.avoid {
				for line := range strings.Lines(out) {
					if strings.Contains(line, avoid) && !strings.HasPrefix(strings.TrimSpace(line), "#") {
						t.Errorf("%q is in %q", avoid, strings.TrimSpace(line))
					}
				}
				if strings.Contains(avoid, "\n") && strings.Contains(out, avoid) {
					t.Errorf("%q is there", avoid)
				}
			}
		})
	}
}

// TestNotes holds that the notes name the pages and folders that each preset needs. The objects that the
// notes print are YAML.
func TestNotes(t *testing.T) {
	for preset, want := range map[string][]string{
		"slinky.yaml":       {"quoin doctor --only cluster", "docs/slinky.md", "/opt/quoin/bin, /run/quoin, /var/lib/dcgm-exporter/job-mapping of the host"},
		"soperator.yaml":    {"docs/soperator.md"},
		"gpu-operator.yaml": {"docs/jobs-and-metrics.md"},
		"gpucluster.yaml":   {"podMonitor.enabled"},
		"gke.yaml":          nil,
		"sunk.yaml":         nil,
		"vcluster.yaml":     {"ignoreDifferences:"},
	} {
		out, err := kuberig.Helm(t, "install", "quoin", "chart", "--namespace", "quoin-system", "--dry-run=client", "--set", kuberig.Image, "-f", "chart/presets/"+preset)
		if err != nil {
			t.Fatalf("%s: %v", preset, err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, text := range want {
			if !strings.Contains(notes, text) {
				t.Errorf("%s: the notes have no %q:\n%s", preset, text, notes)
			}
		}
		for block := range strings.SplitSeq(notes, "\n\n") {
			if first, _, _ := strings.Cut(strings.TrimSpace(block), " "); !strings.HasPrefix(block, "    ") || first == "kubectl" || first == "quoin" {
				continue
			}
			var object map[string]any
			if err := yaml.Unmarshal([]byte(block), &object); err != nil || len(object) == 0 {
				t.Errorf("%s: %v\n%s", preset, err, block)
			}
		}
	}
}

// TestOtherNames gives the objects other names: what one object says of another one still holds. The names that programs,
// Slurm or Prometheus look for stay.
func TestOtherNames(t *testing.T) {
	stay := []string{"quoin-config", "quoin-hook-epilog", "quoin-hook-prolog", "quoin-imex", "quoin-metrics", "quoin-metrics-reader", "quoin-viewer"}
	for set, prefix := range map[string]string{"fullnameOverride=gpu-map": "gpu-map", "nameOverride=map": "quoin-map", "nameOverride=map,fullnameOverride=gpu": "gpu"} {
		t.Run(set, func(t *testing.T) {
			all := objects(t, rendered(t, []string{"chart/presets/slinky.yaml"}, "--api-versions", driverAPI, "--set", kuberig.Image+",metrics.tlsSecret=certs,metrics.authorize=true,prometheusRule.enabled=true,dashboards.enabled=true,"+set))
			has, old := map[string]bool{}, map[string]bool{}
			for _, o := range all {
				name := o.at("name")
				has[o.at("kind")+" "+o.at("namespace")+" "+name] = true
				if kind := o.at("kind"); kind != "Namespace" && kind != "CustomResourceDefinition" && name != prefix && !strings.HasPrefix(name, prefix+"-") || slices.Contains(stay, name) {
					old[name] = true
				}
			}
			if diff := cmp.Diff(stay, slices.Sorted(maps.Keys(old))); diff != "" {
				t.Errorf("names that stay (-want +got):\n%s", diff)
			}
			count := 0
			for id, o := range all {
				for _, other := range namedIn(t, o) {
					count++
					if !has[other] {
						t.Errorf("%s names %s, which is not there", id, other)
					}
				}
			}
			if count < 25 {
				t.Errorf("objects name %d others", count)
			}
		})
	}
}

// namedIn are the objects that an object names: roles and accounts of a binding, the policy of a binding, the account and the
// configuration of a pod.
func namedIn(t *testing.T, o object) (others []string) {
	t.Helper()
	var of struct {
		RoleRef  struct{ Kind, Name string } `yaml:"roleRef"`
		Subjects []struct{ Kind, Namespace, Name string }
		Spec     struct {
			PolicyName string `yaml:"policyName"`
			Template   struct {
				Spec struct {
					Account string `yaml:"serviceAccountName"`
					Volumes []struct {
						ConfigMap struct{ Name string } `yaml:"configMap"`
					}
				}
			}
		}
	}
	if kind := o.at("kind"); !strings.HasSuffix(kind, "Binding") && kind != "DaemonSet" && kind != "Deployment" {
		return nil
	}
	if err := yaml.Unmarshal([]byte(o.text), &of); err != nil {
		t.Fatal(err)
	}
	add := func(kind, namespace, name string) {
		if name != "" {
			others = append(others, kind+" "+namespace+" "+name)
		}
	}
	where := o.at("namespace")
	if of.RoleRef.Kind == "ClusterRole" {
		where = ""
	}
	add(of.RoleRef.Kind, where, of.RoleRef.Name)
	for _, s := range of.Subjects {
		add(s.Kind, s.Namespace, s.Name)
	}
	add("ValidatingAdmissionPolicy", "", of.Spec.PolicyName)
	add("ServiceAccount", o.at("namespace"), of.Spec.Template.Spec.Account)
	for _, v := range of.Spec.Template.Spec.Volumes {
		add("ConfigMap", o.at("namespace"), v.ConfigMap.Name)
	}
	return others
}

// TestLabels holds that each object but namespaces and the definition says its chart and release, and that no pod and no
// selector does: a new release of the chart alone starts no pod again.
func TestLabels(t *testing.T) {
	marks := []string{"helm.sh/chart", "app.kubernetes.io/version"}
	for id, o := range objects(t, rendered(t, nil, append([]string{"--api-versions", driverAPI, "--set", kuberig.Image}, monitored...)...)) {
		if kind := o.at("kind"); kind == "Namespace" || kind == "CustomResourceDefinition" {
			continue
		}
		metadata, rest, _ := strings.Cut(o.text, "\nspec:\n")
		for _, mark := range marks {
			if !strings.Contains(metadata, `"`+mark+`":"`) {
				t.Errorf("%s has no label %s", id, mark)
			}
			if strings.Contains(rest, mark) {
				t.Errorf("%s has %s in its spec", id, mark)
			}
		}
	}
}

// TestRealOtherNames installs with other names: doctor finds all, by labels.
func TestRealOtherNames(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	_, err := kuberig.Helm(t, "install", "quoin", "chart", "--namespace", "quoin-system", "--create-namespace", "--kubeconfig", c.Kubeconfig(),
		"--set", kuberig.Image+",fullnameOverride=gpu-map,agent.serviceAccount.name=reporter")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := c.Token(t.Context(), "quoin-node", "reporter", "node-a")
	if err != nil {
		t.Fatal(err)
	}
	waitForReportPolicy(t, objectsOf(t, c, agent))
	_, found := diagnose(t, c)
	wantFinding(t, topology.OK, found, "a stolen agent token is refused: 6 policies deny")
	wantFinding(t, topology.OK, found, "agents and publisher have the rights that they need")
	wantFinding(t, topology.Fatal, found, "no node gets an agent")
	if f := wantFinding(t, topology.Fatal, found, "no publisher is ready"); !strings.HasSuffix(f.Remedy, "logs deploy/gpu-map-publisher") {
		t.Errorf("doctor says %s", f.Remedy)
	}
	set, err := c.Objects().Get(t.Context(), "daemonsets", "quoin-node", "gpu-map-agent")
	if err != nil || set.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("the agents: %v, labels %v", err, set)
	}
}
