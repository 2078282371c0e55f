/* Functional Mock-up Interface 2.0, for co-simulation and model exchange.

   What stands above this file: MODEL_GUID, N_STATES, N_INPUTS, N_OUTPUTS, SAMPLING_TIME, INPUT_START, STATE_START, and

       f(in, out), f_jacobian(in, J)      with in = (states, inputs) and out = (next states, outputs).

   A map has no states. Value references count inputs, outputs, initial states, states.
*/
#include <stddef.h>
#include <string.h>

#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#if defined FMI2_FUNCTION_PREFIX && !defined FMI2_OVERRIDE_FUNCTION_PREFIX
#define JOINED(a, b) a##b
#define PREFIXED(a, b) JOINED(a, b)
#define NAMED(name) PREFIXED(FMI2_FUNCTION_PREFIX, name)
#else
#define NAMED(name) name
#endif
#define API(name) EXPORT fmi2Status NAMED(name)

/* The types of the standard, for which the importer has headers of its own. */
typedef void *fmi2Component;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer;
typedef int fmi2Boolean;
typedef const char *fmi2String;
typedef char fmi2Byte;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;
typedef enum { fmi2DoStepStatus, fmi2PendingStatus, fmi2LastSuccessfulTime, fmi2Terminated } fmi2StatusKind;
typedef struct {
    void (*logger)(void *, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(void *, fmi2Status);
    void *componentEnvironment;
} fmi2CallbackFunctions;
typedef struct {
    fmi2Boolean newDiscreteStatesNeeded, terminateSimulation, nominalsOfContinuousStatesChanged;
    fmi2Boolean valuesOfContinuousStatesChanged, nextEventTimeDefined;
    fmi2Real nextEventTime;
} fmi2EventInfo;

enum { N_IN = N_STATES + N_INPUTS, N_OUT = N_STATES + N_OUTPUTS };
static const double input_start[N_INPUTS] = INPUT_START;
static const double state_start[N_STATES + 1] = STATE_START;
static const double tolerance = 1e-9; /* of a sample: the rounding of sums of communication steps */

/* All that changes; arrays have an entry more, since a model may have no states. */
typedef struct {
    double u[N_INPUTS], sampled_u[N_INPUTS], start[N_STATES + 1], x[N_STATES + 1];
    double first_time, time;
    long samples;
    int started;
} State;

typedef struct {
    State now;
    fmi2CallbackFunctions call;
    char *name;
} Model;

static fmi2Status refuse(const Model *model, const char *message)
{
    if (model->call.logger)
        model->call.logger(model->call.componentEnvironment, model->name, fmi2Error, "logStatusError", message);
    return fmi2Error;
}

static void restart(State *now)
{
    memset(now, 0, sizeof *now);
    memcpy(now->u, input_start, sizeof now->u);
    memcpy(now->start, state_start, sizeof now->start);
    memcpy(now->x, state_start, sizeof now->x);
}

static void gather(const State *now, const double *u, double *in)
{
    for (int i = 0; i < N_STATES; i++) in[i] = now->x[i];
    for (int i = 0; i < N_INPUTS; i++) in[N_STATES + i] = u[i];
}

static double next_sample(const State *now)
{
    return now->first_time + (double)(now->samples + 1) * SAMPLING_TIME;
}

/* Steps of the model up to this time, with inputs that are held. */
static void advance(State *now, const double *u, double time)
{
    double in[N_IN], out[N_OUT];
    while (N_STATES && next_sample(now) <= time + tolerance * SAMPLING_TIME) {
        gather(now, u, in);
        f(in, out);
        for (int i = 0; i < N_STATES; i++) now->x[i] = out[i];
        now->samples++;
    }
    now->time = time;
}

EXPORT const char *NAMED(fmi2GetTypesPlatform)(void)
{
    return "default";
}

EXPORT const char *NAMED(fmi2GetVersion)(void)
{
    return "2.0";
}

API(fmi2SetDebugLogging)(fmi2Component c, fmi2Boolean on, size_t count, const fmi2String categories[])
{
    (void)c, (void)on, (void)count, (void)categories;
    return fmi2OK;
}

/* Instances */

EXPORT fmi2Component NAMED(fmi2Instantiate)(fmi2String name, int type, fmi2String guid, fmi2String resources,
                                            const fmi2CallbackFunctions *call, fmi2Boolean visible, fmi2Boolean log)
{
    (void)type, (void)resources, (void)visible, (void)log;
    if (!call || !call->allocateMemory || !call->freeMemory || !name) return NULL;
    Model *model = call->allocateMemory(1, sizeof *model);
    if (!model) return NULL;
    model->call = *call;
    model->name = call->allocateMemory(strlen(name) + 1, 1);
    if (model->name) strcpy(model->name, name);
    if (!model->name || !guid || strcmp(guid, MODEL_GUID)) {
        if (model->name) {
            refuse(model, "The GUID must be that of modelDescription.xml.");
            call->freeMemory(model->name);
        }
        call->freeMemory(model);
        return NULL;
    }
    restart(&model->now);
    return model;
}

EXPORT void NAMED(fmi2FreeInstance)(fmi2Component c)
{
    Model *model = c;
    if (!model) return;
    void (*release)(void *) = model->call.freeMemory;
    release(model->name);
    release(model);
}

API(fmi2SetupExperiment)(fmi2Component c, fmi2Boolean defined, fmi2Real accuracy, fmi2Real start, fmi2Boolean ends,
                         fmi2Real stop)
{
    (void)defined, (void)accuracy, (void)ends, (void)stop;
    State *now = &((Model *)c)->now;
    now->first_time = now->time = start;
    return fmi2OK;
}

API(fmi2EnterInitializationMode)(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

API(fmi2ExitInitializationMode)(fmi2Component c)
{
    State *now = &((Model *)c)->now;
    now->started = 1;
    memcpy(now->sampled_u, now->u, sizeof now->u);
    return fmi2OK;
}

API(fmi2Terminate)(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

API(fmi2Reset)(fmi2Component c)
{
    restart(&((Model *)c)->now);
    return fmi2OK;
}

/* Variables */

API(fmi2GetReal)(fmi2Component c, const fmi2ValueReference vr[], size_t count, fmi2Real value[])
{
    Model *model = c;
    const State *now = &model->now;
    double in[N_IN], out[N_OUT];
    int computed = 0;
    for (size_t k = 0; k < count; k++) {
        long i = (long)vr[k];
        if (i < N_INPUTS) {
            value[k] = now->u[i];
        } else if ((i -= N_INPUTS) < N_OUTPUTS) {
            if (!computed) {
                gather(now, now->u, in);
                f(in, out);
                computed = 1;
            }
            value[k] = out[N_STATES + i];
        } else if ((i -= N_OUTPUTS) < 2 * N_STATES) {
            value[k] = i < N_STATES ? now->start[i] : now->x[i - N_STATES];
        } else {
            return refuse(model, "There is no real variable of this value reference.");
        }
    }
    return fmi2OK;
}

API(fmi2SetReal)(fmi2Component c, const fmi2ValueReference vr[], size_t count, const fmi2Real value[])
{
    Model *model = c;
    State *now = &model->now;
    for (size_t k = 0; k < count; k++) {
        long i = (long)vr[k], state = i - N_INPUTS - N_OUTPUTS;
        if (i < N_INPUTS) {
            now->u[i] = value[k];
        } else if (!now->started && state >= 0 && state < N_STATES) {
            now->start[state] = now->x[state] = value[k];
        } else {
            return refuse(model, "Inputs can be set, and initial states until the initialization ends.");
        }
    }
    return fmi2OK;
}

#define OTHER_TYPE(kind)                                                                                              \
    API(fmi2Get##kind)(fmi2Component c, const fmi2ValueReference vr[], size_t count, fmi2##kind value[])              \
    {                                                                                                                 \
        (void)vr, (void)value;                                                                                        \
        return count ? refuse(c, "All variables are real.") : fmi2OK;                                                 \
    }                                                                                                                 \
    API(fmi2Set##kind)(fmi2Component c, const fmi2ValueReference vr[], size_t count, const fmi2##kind value[])        \
    {                                                                                                                 \
        (void)vr, (void)value;                                                                                        \
        return count ? refuse(c, "All variables are real.") : fmi2OK;                                                 \
    }
OTHER_TYPE(Integer)
OTHER_TYPE(Boolean)
OTHER_TYPE(String)

API(fmi2GetDirectionalDerivative)(fmi2Component c, const fmi2ValueReference unknown[], size_t n_unknown,
                                  const fmi2ValueReference known[], size_t n_known, const fmi2Real seed[],
                                  fmi2Real sensitivity[])
{
    Model *model = c;
    double in[N_IN], J[N_OUT * N_IN];
    gather(&model->now, model->now.u, in);
    f_jacobian(in, J);
    for (size_t a = 0; a < n_unknown; a++) {
        long row = (long)unknown[a] - N_INPUTS;
        if (row < 0 || row >= N_OUTPUTS) return refuse(model, "Only outputs have derivatives.");
        sensitivity[a] = 0.0;
        for (size_t b = 0; b < n_known; b++) {
            long input = (long)known[b], state = input - N_INPUTS - N_OUTPUTS;
            if (input >= N_INPUTS && (state < 0 || state >= N_STATES))
                return refuse(model, "Derivatives are by inputs and initial states.");
            sensitivity[a] += J[(N_STATES + row) * N_IN + (input < N_INPUTS ? N_STATES + input : state)] * seed[b];
        }
    }
    return fmi2OK;
}

/* Copies of the state */

API(fmi2GetFMUstate)(fmi2Component c, void **copy)
{
    Model *model = c;
    if (!*copy) *copy = model->call.allocateMemory(1, sizeof(State));
    if (!*copy) return refuse(model, "There is no memory for a copy of the state.");
    memcpy(*copy, &model->now, sizeof(State));
    return fmi2OK;
}

API(fmi2SetFMUstate)(fmi2Component c, void *copy)
{
    memcpy(&((Model *)c)->now, copy, sizeof(State));
    return fmi2OK;
}

API(fmi2FreeFMUstate)(fmi2Component c, void **copy)
{
    if (*copy) ((Model *)c)->call.freeMemory(*copy);
    *copy = NULL;
    return fmi2OK;
}

API(fmi2SerializedFMUstateSize)(fmi2Component c, void *copy, size_t *size)
{
    (void)c, (void)copy;
    *size = sizeof(State);
    return fmi2OK;
}

API(fmi2SerializeFMUstate)(fmi2Component c, void *copy, fmi2Byte bytes[], size_t size)
{
    if (size < sizeof(State)) return refuse(c, "The array must hold the whole state.");
    memcpy(bytes, copy, sizeof(State));
    return fmi2OK;
}

API(fmi2DeSerializeFMUstate)(fmi2Component c, const fmi2Byte bytes[], size_t size, void **copy)
{
    Model *model = c;
    if (size < sizeof(State)) return refuse(model, "The array must hold the whole state.");
    if (!*copy) *copy = model->call.allocateMemory(1, sizeof(State));
    if (!*copy) return refuse(model, "There is no memory for a copy of the state.");
    memcpy(*copy, bytes, sizeof(State));
    return fmi2OK;
}

/* Co-simulation: inputs are held over a communication step. */

API(fmi2DoStep)(fmi2Component c, fmi2Real time, fmi2Real step, fmi2Boolean keep)
{
    (void)keep;
    Model *model = c;
    if (!(step >= 0.0)) return refuse(model, "A step must not go back.");
    advance(&model->now, model->now.u, time + step);
    return fmi2OK;
}

API(fmi2CancelStep)(fmi2Component c)
{
    return refuse(c, "Steps are over when they return.");
}

API(fmi2SetRealInputDerivatives)(fmi2Component c, const fmi2ValueReference vr[], size_t count,
                                 const fmi2Integer order[], const fmi2Real value[])
{
    (void)vr, (void)order, (void)value;
    return count ? refuse(c, "Inputs are held, not interpolated.") : fmi2OK;
}

API(fmi2GetRealOutputDerivatives)(fmi2Component c, const fmi2ValueReference vr[], size_t count,
                                  const fmi2Integer order[], fmi2Real value[])
{
    (void)vr, (void)order, (void)value;
    return count ? refuse(c, "Outputs have no derivatives by time.") : fmi2OK;
}

API(fmi2GetStatus)(fmi2Component c, fmi2StatusKind kind, fmi2Status *value)
{
    (void)c, (void)kind;
    *value = fmi2OK;
    return fmi2OK;
}

API(fmi2GetRealStatus)(fmi2Component c, fmi2StatusKind kind, fmi2Real *value)
{
    if (kind != fmi2LastSuccessfulTime) return refuse(c, "This status is no number.");
    *value = ((Model *)c)->now.time;
    return fmi2OK;
}

API(fmi2GetIntegerStatus)(fmi2Component c, fmi2StatusKind kind, fmi2Integer *value)
{
    (void)kind, (void)value;
    return refuse(c, "There is no status that is a whole number.");
}

API(fmi2GetBooleanStatus)(fmi2Component c, fmi2StatusKind kind, fmi2Boolean *value)
{
    (void)c, (void)kind;
    *value = 0;
    return fmi2OK;
}

API(fmi2GetStringStatus)(fmi2Component c, fmi2StatusKind kind, fmi2String *value)
{
    (void)kind, (void)value;
    return refuse(c, "There is no status that is a text.");
}

/* Model exchange: the states change at events, one per sample, from the inputs at the sample before. */

API(fmi2EnterEventMode)(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

API(fmi2NewDiscreteStates)(fmi2Component c, fmi2EventInfo *info)
{
    State *now = &((Model *)c)->now;
    long before = now->samples;
    advance(now, now->sampled_u, now->time);
    /* At a sample the inputs are read, and again while the event is iterated. */
    if (now->samples > before || now->time <= next_sample(now) - (1.0 - tolerance) * SAMPLING_TIME)
        memcpy(now->sampled_u, now->u, sizeof now->u);
    memset(info, 0, sizeof *info);
    info->nextEventTimeDefined = N_STATES > 0;
    info->nextEventTime = next_sample(now);
    return fmi2OK;
}

API(fmi2EnterContinuousTimeMode)(fmi2Component c)
{
    (void)c;
    return fmi2OK;
}

API(fmi2CompletedIntegratorStep)(fmi2Component c, fmi2Boolean keep, fmi2Boolean *event, fmi2Boolean *terminate)
{
    (void)c, (void)keep;
    *event = *terminate = 0;
    return fmi2OK;
}

API(fmi2SetTime)(fmi2Component c, fmi2Real time)
{
    ((Model *)c)->now.time = time;
    return fmi2OK;
}

API(fmi2SetContinuousStates)(fmi2Component c, const fmi2Real x[], size_t count)
{
    (void)x;
    return count ? refuse(c, "There are no continuous states.") : fmi2OK;
}

#define NO_CONTINUOUS(name)                                                                                           \
    API(name)(fmi2Component c, fmi2Real value[], size_t count)                                                        \
    {                                                                                                                 \
        (void)value;                                                                                                  \
        return count ? refuse(c, "There are no continuous states and no event indicators.") : fmi2OK;                 \
    }
NO_CONTINUOUS(fmi2GetDerivatives)
NO_CONTINUOUS(fmi2GetEventIndicators)
NO_CONTINUOUS(fmi2GetContinuousStates)
NO_CONTINUOUS(fmi2GetNominalsOfContinuousStates)
