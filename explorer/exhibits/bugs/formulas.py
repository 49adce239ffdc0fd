"""The formulas of the wrong and the right lines of each pitfall, as LaTeX."""

_ATTENTION = r"A_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k m_{ik}\,e^{s_{ik}}}"
_NO_KEYS = r"m_{i1} = \dots = m_{in} = 0\ \Rightarrow\ A_{ij} = "
_CAUSAL = r"m_{ij} = [\,j \le i\,]"

FORMULAS: dict[str, tuple[str, str]] = {
    "inverted_causal": (r"m_{ij} = [\,j > i\,]", _CAUSAL),
    "inverted_padding": (
        r"m_{ij} = [\,x_j = \mathrm{PAD}\,]",
        r"m_{ij} = [\,x_j \ne \mathrm{PAD}\,]",
    ),
    "after_softmax": (r"A_{ij} = \frac{m_{ij}\,e^{s_{ij}}}{\sum_k e^{s_{ik}}}", _ATTENTION),
    "times_zero": (r"A_{ij} = \frac{e^{m_{ij} s_{ij}}}{\sum_k e^{m_{ik} s_{ik}}}", _ATTENTION),
    "added_ones": (r"A_{ij} = \frac{e^{s_{ij} + m_{ij}}}{\sum_k e^{s_{ik} + m_{ik}}}", _ATTENTION),
    "diagonal_open": (r"m_{ij} = [\,j \le i + 1\,]", _CAUSAL),
    "diagonal_closed": (r"m_{ij} = [\,j < i\,]", _CAUSAL),
    "no_mask": (r"m_{ij} = 1", r"m_{ij} = [\,j \le i\,]\,[\,x_j \ne \mathrm{PAD}\,]"),
    "extra_axis": (
        r"s:\ [1, B, H, n, n],\qquad z:\ [1, B, H, n, d]\ \to\ [1, H, B, n, d]\ \to\ [B, n, H d]",
        r"s:\ [B, H, n, n],\qquad z:\ [B, H, n, d]\ \to\ [B, n, H, d]\ \to\ [B, n, H d]",
    ),
    "first_item": (
        r"m_{bhij} = \begin{cases} m_{1ij} & b = 1 \\ 1 & b > 1 \end{cases}",
        r"m_{bhij} = m_{bij}",
    ),
    "first_head": (
        r"m_{bhij} = \begin{cases} m_{bij} & h = 1 \\ 1 & h > 1 \end{cases}",
        r"m_{bhij} = m_{bij}",
    ),
    "padding_per_head": (
        r"m_{bhij} = [\,x_{hj} \ne \mathrm{PAD}\,]",
        r"m_{bhij} = [\,x_{bj} \ne \mathrm{PAD}\,]",
    ),
    "row_per_head": (r"m_{bhij} = [\,j \le h\,]", r"m_{bhij} = [\,j \le i\,]"),
    "small_fill": (
        r"A_{ij} = \frac{e^{s'_{ij}}}{\sum_k e^{s'_{ik}}},\qquad "
        r"s'_{ij} = \begin{cases} s_{ij} & m_{ij} = 1 \\ -10^4 & m_{ij} = 0 \end{cases}",
        _ATTENTION,
    ),
    "added_fill": (
        _NO_KEYS + r"\frac{e^{s_{ij} - 10^4}}{\sum_k e^{s_{ik} - 10^4}}"
        r" = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}",
        _NO_KEYS + "0",
    ),
    "half_fill": (r"-10^9 < \min(\mathrm{float16}) = -65504", r"F = \min(\mathrm{dtype})"),
    "empty_row_nan": (
        _NO_KEYS + r"\frac{e^{-\infty - (-\infty)}}{\sum_k e^{-\infty - (-\infty)}} = \mathrm{NaN}",
        _NO_KEYS + "0",
    ),
    "empty_row_uniform": (
        _NO_KEYS + r"\frac{e^{-10^9 - (-10^9)}}{\sum_k e^{-10^9 - (-10^9)}} = \frac{1}{n}",
        _NO_KEYS + "0",
    ),
    "is_causal_cache": (_CAUSAL, r"m_{ij} = [\,j \le i + n_\mathrm{key} - n_\mathrm{query}\,]"),
    "pad_confused": (
        r"m_{ij} = [\,x_j \ne \mathrm{END}\,]",
        r"m_{ij} = [\,x_j \ne \mathrm{PAD}\,]",
    ),
    "mask_replaced": (_CAUSAL, r"m_{ij} = [\,j \le i\,]\,[\,x_j \ne \mathrm{PAD}\,]"),
    "left_positions": (
        r"p_j = j - 1",
        r"p_j = \max\left(0,\ \sum_{k \le j} [\,x_k \ne \mathrm{PAD}\,] - 1\right)",
    ),
    "model_scale": (
        r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_\mathrm{model}}}",
        r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_\mathrm{head}}}",
    ),
    "batch_positions": (
        r"B = 1\ \Rightarrow\ x_1 + P_0,\ x_2 + P_0,\ \dots,\ x_n + P_0",
        r"x_1 + P_0,\ x_2 + P_1,\ \dots,\ x_n + P_{n-1}",
    ),
    "rotated_heads": (
        r"(R_h\,q_i) \cdot (R_h\,k_j) = q_i \cdot k_j",
        r"(R_i\,q_i) \cdot (R_j\,k_j) = q_i \cdot (R_{j-i}\,k_j)",
    ),
    "unbiased_variance": (
        r"\sigma^2 = \frac{1}{d-1}\sum_{c=1}^{d} (x_c - \mu)^2",
        r"\sigma^2 = \frac{1}{d}\sum_{c=1}^{d} (x_c - \mu)^2",
    ),
    "norm_backward": (
        r"\frac{\partial L}{\partial x} = \frac{\gamma}{\sigma}"
        r"\left(g - \overline{g} - n\,\overline{g\,n}\right)",
        r"\frac{\partial L}{\partial x} = \frac{1}{\sigma}"
        r"\left(\gamma g - \overline{\gamma g} - n\,\overline{\gamma g\,n}\right)",
    ),
    "label_view": (
        r"y_t = \mathrm{PAD}:\quad y_t \leftarrow -100,\quad x_{t+1} \leftarrow -100",
        r"y_t = \mathrm{PAD}:\quad y_t \leftarrow -100,\quad x_{t+1} = \mathrm{PAD}",
    ),
    "double_softmax": (
        r"L = -\log\,\mathrm{softmax}(\mathrm{softmax}(z))_y",
        r"L = -\log\,\mathrm{softmax}(z)_y",
    ),
    "no_zero_grad": (r"g_t = \sum_{u=1}^{t} \nabla L_u", r"g_t = \nabla L_t"),
    "unpacked_batch": (
        r"X \in \mathbb{N}^{2 \times n}:\quad x = X_1,\quad y = X_2",
        r"x = X,\quad y = Y",
    ),
    "one_projection": (
        r"W_Q = W_K = W_V\ \Rightarrow\ s_{ij} = s_{ji}",
        r"s_{ij} = \frac{(W_Q x_i) \cdot (W_K x_j)}{\sqrt{d}}",
    ),
    "copied_projections": (
        r"W_Q^{(0)} = W_K^{(0)} = W_V^{(0)}\ \Rightarrow\ s^{(0)}_{ij} = s^{(0)}_{ji}",
        r"s_{ij} = \frac{(W_Q x_i) \cdot (W_K x_j)}{\sqrt{d}}",
    ),
    "tiny_epsilon": (
        r"\frac{x - \mu}{\sqrt{\sigma^2 + 10^{-12}}}",
        r"\frac{x - \mu}{\sqrt{\sigma^2 + 10^{-5}}}",
    ),
}
