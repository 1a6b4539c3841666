// celcost prints what CEL expressions cost when kube-apiserver evaluates them.
//
// It reads {"schema": …, "value": …, "expressions": […]} from standard input and writes one result for each
// expression: its cost, or the error of its compilation. The variable self has the type of the schema, or is dynamic
// where there is none.
package main

import (
	"context"
	"encoding/json"
	"math"
	"os"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type question struct {
	Schema      *apiextensionsv1.JSONSchemaProps `json:"schema"`
	Value       any                              `json:"value"`
	Expressions []string                         `json:"expressions"`
}

type answer struct {
	Cost  *uint64 `json:"cost,omitempty"`
	Error string  `json:"error,omitempty"`
}

func main() {
	var asked question
	must(json.NewDecoder(os.Stdin).Decode(&asked))
	env, self := prepared(asked.Schema, whole(asked.Value))
	answers := make([]answer, len(asked.Expressions))
	for i, expression := range asked.Expressions {
		answers[i] = cost(env, self, expression)
	}
	must(json.NewEncoder(os.Stdout).Encode(answers))
}

func prepared(given *apiextensionsv1.JSONSchemaProps, value any) (*celgo.Env, any) {
	options := environment.VersionedOptions{IntroducedVersion: environment.DefaultCompatibilityVersion()}
	if given == nil {
		options.EnvOptions = []celgo.EnvOption{celgo.Variable("self", celgo.DynType)}
	} else {
		internal := &apiextensions.JSONSchemaProps{}
		must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(given, internal, nil))
		structural, err := schema.NewStructural(internal)
		must(err)
		declared := model.SchemaDeclType(structural, false).MaybeAssignTypeName("selfType")
		options.EnvOptions = []celgo.EnvOption{celgo.Variable("self", declared.CelType())}
		options.DeclTypes = []*apiservercel.DeclType{declared}
		value = cel.UnstructuredToVal(value, structural)
	}
	set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(options)
	must(err)
	env, err := set.Env(environment.NewExpressions)
	must(err)
	return env, value
}

func cost(env *celgo.Env, self any, expression string) answer {
	tree, issues := env.Compile(expression)
	if issues.Err() != nil {
		return answer{Error: issues.Err().Error()}
	}
	program, err := env.Program(tree, celgo.CostTracking(&library.CostEstimator{}))
	if err != nil {
		return answer{Error: err.Error()}
	}
	_, details, err := program.ContextEval(context.Background(), map[string]any{"self": self})
	found := answer{Cost: details.ActualCost()}
	if err != nil {
		found.Error = err.Error()
	}
	return found
}

// whole makes integers of numbers without a fraction, as the API server's decoder does.
func whole(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, item := range typed {
			typed[key] = whole(item)
		}
	case []any:
		for i, item := range typed {
			typed[i] = whole(item)
		}
	case float64:
		if typed == math.Trunc(typed) {
			return int64(typed)
		}
	}
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
