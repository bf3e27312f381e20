import { beforeAll } from 'vitest';
import { forgetCalls } from '../../../engine/host/running-calls.ts';

/** Before each file of a shared worker: forgets the running calls that earlier files abandoned. */
beforeAll(forgetCalls);
