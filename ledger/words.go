package ledger

import "github.com/sluicedp/sluice/ledger/vocabulary"

const BuyerRefused = vocabulary.BuyerRefused
const CapDiffers = vocabulary.CapDiffers
const ChainCeiling = vocabulary.ChainCeiling
const Direct = vocabulary.Direct
const EpochBegun = vocabulary.EpochBegun
const Finite = vocabulary.Finite
const RemedyEnrolling = vocabulary.RemedyEnrolling
const RemedyKey = vocabulary.RemedyKey
const RemedyLess = vocabulary.RemedyLess
const RemedyNothing = vocabulary.RemedyNothing
const RemedyPaying = vocabulary.RemedyPaying
const RemedyQuoting = vocabulary.RemedyQuoting
const RemedyTruth = vocabulary.RemedyTruth
const RemedyWaiting = vocabulary.RemedyWaiting
const HoldersFull = vocabulary.HoldersFull
const MaxMechanism = vocabulary.MaxMechanism
const MaxPanel = vocabulary.MaxPanel
const MaxUnaryValues = vocabulary.MaxUnaryValues
const NoNoiseKey = vocabulary.NoNoiseKey
const NoTruth = vocabulary.NoTruth
const NoTruthKey = vocabulary.NoTruthKey
const NotEnrolled = vocabulary.NotEnrolled
const NotForSale = vocabulary.NotForSale
const NotOnOffer = vocabulary.NotOnOffer
const ObjectCap = vocabulary.ObjectCap
const PolicyDiffers = vocabulary.PolicyDiffers
const SaleClosed = vocabulary.SaleClosed
const Unary = vocabulary.Unary
const Withdrawn = vocabulary.Withdrawn

type Encoding = vocabulary.Encoding
type Remedy = vocabulary.Remedy
type Mechanism = vocabulary.Mechanism
type Question = vocabulary.Question
type Reason = vocabulary.Reason
type Refusal = vocabulary.Refusal
type ClockError = vocabulary.ClockError
type KeyConflictError = vocabulary.KeyConflictError
type RefusedError = vocabulary.RefusedError
