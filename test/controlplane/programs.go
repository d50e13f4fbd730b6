// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Program is one executable of a test cluster.
type Program string

// The programs of a control plane and its simulated nodes, and kubectl.
const (
	Etcd                  Program = "etcd"
	KubeAPIServer         Program = "kube-apiserver"
	KubeControllerManager Program = "kube-controller-manager"
	KubeScheduler         Program = "kube-scheduler"
	Kwok                  Program = "kwok"
	Kubectl               Program = "kubectl"
)

// The programs of a real node, besides those that come as packages.
const (
	Kubelet   Program = "kubelet"
	KubeProxy Program = "kube-proxy"
	CoreDNS   Program = "coredns"
)

// Programs of our own. They need nothing but the standard library and are built
// from the folders of their names.
const (
	// Guard runs a server and ends it when its time has come.
	Guard Program = "guard"
	// Node is the first process of a real node's namespaces.
	Node Program = "node"
	// Pause is the first process of every Pod.
	Pause Program = "pause"
)

// moduleFile is the go.mod of the module that all programs are built in but our own.
// Its go.sum lies beside it.
const moduleFile = "tools/cluster.mod"

// A recipe tells how to build a program.
type recipe struct {
	program Program
	pkg     string // package to build; empty for a program of our own, built from the folder of its name
	tags    string // build tags, separated by commas
	main    string // file in tools with a main package of our own, which is pkg "."

	// stamp, if set, returns the linker flags that tell the program its
	// version, which is the version of the module named by versionOf.
	versionOf string
	stamp     func(version string) string
}

// controlPlaneRecipes are those of Programs.
var controlPlaneRecipes = []recipe{
	{program: Etcd, pkg: "go.etcd.io/etcd/server/v3"},
	kubernetesRecipe(KubeAPIServer),
	kubernetesRecipe(KubeControllerManager),
	kubernetesRecipe(KubeScheduler),
	{program: Kwok, pkg: "sigs.k8s.io/kwok/cmd/kwok"},
	kubernetesRecipe(Kubectl),
}

// nodeRecipes are those of NodePrograms.
var nodeRecipes = []recipe{
	kubernetesRecipe(Kubelet),
	kubernetesRecipe(KubeProxy),
	// Nearly half of what CoreDNS is built from are plugins that ask clouds.
	{program: CoreDNS, pkg: ".", main: "coredns.go.txt"},
}

// ownRecipes are those of our own programs.
var ownRecipes = []recipe{
	{program: Guard},
	{program: Node},
	{program: Pause},
}

func kubernetesRecipe(program Program) recipe {
	return recipe{
		program:   program,
		pkg:       "k8s.io/kubernetes/cmd/" + string(program),
		versionOf: "k8s.io/kubernetes",
		stamp: func(version string) string {
			major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
			minor, _, _ = strings.Cut(minor, ".")
			const variable = "-X k8s.io/component-base/version."
			return variable + "gitVersion=" + version + " " + variable + "gitMajor=" + major + " " + variable + "gitMinor=" + minor
		},
	}
}

// recipes returns all recipes but those of our own programs, in the order in
// which they are built.
func recipes() []recipe {
	return slices.Concat(controlPlaneRecipes, nodeRecipes, olmRecipes, bundleRecipes)
}

// Programs returns the programs of a control plane with simulated nodes, in
// the order in which they are built.
func Programs() []Program { return programsOf(controlPlaneRecipes) }

// NodePrograms returns what a real node needs besides a control plane.
func NodePrograms() []Program { return programsOf(nodeRecipes) }

// AllPrograms returns all programs that [Resolve] knows, but for our own.
func AllPrograms() []Program { return programsOf(recipes()) }

func programsOf(recipes []recipe) []Program {
	programs := make([]Program, 0, len(recipes))
	for _, recipe := range recipes {
		programs = append(programs, recipe.program)
	}
	return programs
}

func (p Program) recipe() (recipe, error) {
	all := append(recipes(), ownRecipes...)
	index := slices.IndexFunc(all, func(r recipe) bool { return r.program == p })
	if index < 0 {
		return recipe{}, fmt.Errorf("unknown program %q: choose from %v", p, AllPrograms())
	}
	return all[index], nil
}

// own tells whether the program is one of ours.
func (p Program) own() bool {
	r, err := p.recipe()
	return err == nil && r.own()
}

// own tells whether it is the recipe of a program of ours.
func (r recipe) own() bool { return r.pkg == "" }

// arguments returns what the go command takes to build the program, but for
// the place to put it.
func (r recipe) arguments() ([]string, error) {
	ldflags := "-s -w"
	if r.stamp != nil {
		version, err := moduleVersion(r.versionOf)
		if err != nil {
			return nil, err
		}
		ldflags += " " + r.stamp(version)
	}
	arguments := []string{"build", "-mod=readonly", "-trimpath", "-ldflags", ldflags}
	if r.tags != "" {
		arguments = append(arguments, "-tags", r.tags)
	}
	return append(arguments, cmp.Or(r.pkg, ".")), nil
}

// moduleVersion reads the version of a module that [moduleFile] requires: no
// other file names it.
func moduleVersion(module string) (string, error) {
	content, err := source.ReadFile(moduleFile)
	if err != nil {
		return "", fmt.Errorf("read the module file: %w", err)
	}
	match := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + `\s+(v\S+)`).FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("%s requires no %s", moduleFile, module)
	}
	return string(match[1]), nil
}
