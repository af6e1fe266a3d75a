"""Register the nine heads of `pipeline.comparison.heads`."""

from pipeline.comparison.heads import regularised, rehearsing
from pipeline.comparison.heads.domain_adversarial import DomainAdversarial
from pipeline.comparison.heads.training import head_method

METHODS = {
    "ewc-head": head_method("EWC", regularised.ElasticWeights),
    "lwf-head": head_method("LwF", regularised.LearningWithoutForgetting),
    "si-head": head_method("SI", regularised.SynapticIntelligence),
    "mas-head": head_method("MAS", regularised.MemoryAwareSynapses),
    "rwalk-head": head_method("RWalk", regularised.RiemannianWalk),
    "icarl-head": head_method("iCaRL", rehearsing.ExemplarClassifier),
    "eeil-head": head_method("EEIL", rehearsing.EndToEnd),
    "il2m-head": head_method("IL2M", rehearsing.DualMemory),
    "dann-head": head_method("DANN", DomainAdversarial),
}
