"""Checked by mypy, never run: the front door needs no cast."""

from typing import assert_type

import numpy as np
import torch

import vicinal as vc

labels = np.zeros(10, dtype=np.int64)
outputs = vc.ModelOutputs.from_logits(np.zeros((10, 3)), np.zeros((10, 2)))
predictor = vc.calibrate(outputs, labels, coverage=0.9, localizer=vc.Uniform(n_neighbors=None))
assert_type(predictor, vc.SetPredictor)
assert_type(predictor.at(0.8), vc.SetPredictor)
assert_type(predictor.predict(outputs), vc.PredictionSets)
print(predictor.predict(outputs).members.sum(), predictor.guarantee.probability)

values = vc.ModelOutputs.from_predictions(np.zeros(10), np.zeros((10, 2)))
intervals = vc.calibrate(values, np.zeros(10), coverage=0.8, method=vc.Split())
assert_type(intervals, vc.IntervalPredictor)
assert_type(intervals.predict(values), vc.PredictionIntervals)
print(intervals.predict(values).lower.min())

best = vc.tune(outputs, labels, coverage=0.9, objective=vc.DecileGap(at_most=0.1), strategy=vc.Bayesian(trials=10))
assert_type(best, vc.TuningReport)
assert_type(vc.calibrate(outputs, labels, coverage=0.9, **best.settings), vc.SetPredictor)
assert_type(vc.calibrate(values, np.zeros(10), coverage=0.9, **best.settings), vc.IntervalPredictor)
assert_type(vc.NeighborVotes.fit(outputs, labels), vc.NeighborVotes)
components = vc.Chain(vc.UnitLength(), vc.PrincipalComponents(2)).fit(outputs)
mapped = vc.calibrate(outputs, labels, localizer=vc.Uniform(n_neighbors=0.1), representation_map=components)
assert_type(vc.diagnose(mapped, outputs, labels), vc.Diagnosis)
print(vc.report(mapped, outputs, labels, "report.html", tuning=best))

assert_type(predictor.save("model.vicinal", precision=16), vc.ArtifactInfo)
assert_type(vc.load("model.vicinal"), vc.SetPredictor | vc.IntervalPredictor)
assert_type(vc.load("model.vicinal", vc.SetPredictor), vc.SetPredictor)
print(vc.load("model.vicinal", vc.IntervalPredictor).predict(values).lower)
vc.save_tuning(best, "tuned.vicinal")
assert_type(vc.load_tuning("tuned.vicinal"), vc.TuningReport)

monitor = vc.DriftMonitor(predictor)
assert_type(monitor.observe(outputs, labels), vc.Drift)
with vc.Client("http://127.0.0.1:8000", timeout=5.0) as client:
    assert_type(client.predict(outputs, coverage=0.8).sets, vc.PredictionSets)
    assert_type(client.predict(values).intervals, vc.PredictionIntervals)
    assert_type(client.feedback(["a"], [0]).drift, vc.Drift)

network = torch.nn.Identity()
collected, classes = vc.torch.collect(network, [(torch.zeros(10, 3), torch.zeros(10))], layer="")
assert_type(collected, vc.ClassificationOutputs)
module = vc.torch.ConformalModule(network, vc.calibrate(collected, classes, search=vc.torch.TorchSearch("cpu")))
print(module.at(0.8).guarantee.probability, module.to("cpu").class_names)
regressed, numbers = vc.torch.collect(network, [], kind=vc.RegressionOutputs)
assert_type(vc.calibrate(regressed, numbers), vc.IntervalPredictor)
